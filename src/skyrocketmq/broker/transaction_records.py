"""The records of transactions: half messages, what a commit makes of them, and the marks that one is ended.

| record | topic, queue | properties |
|---|---|---|
| half message | RMQ_SYS_TRANS_HALF_TOPIC, 0 | the producer's, with CLUSTER, and REAL_TOPIC, REAL_QID for the way back |
| committed message | its real ones | those of the half message; bits "commit"; where the half message lay |
| mark ("op") | RMQ_SYS_TRANS_OP_HALF_TOPIC, 0 | tag `d`; the body is the half message's queue offset in decimal |

Rule 1: a mark has the unique id of its transaction as its own, and says in TRAN_END how that ended. The family gives it
an id that means nothing; with this one the index tells, long after, that a transaction is over, and how.
Rule 2: to the family's brokers any mark says "not to be asked about". Two of ours say no more than that: `given up`,
the transaction can still be ended; `replaced`, this copy does not count any more, a newer one does.
Rule 3: every copy that the broker stores of a half message says in TRAN_PREPARED_QUEUE_OFFSET where the first one lay.
What the broker writes down for itself is its own: of a message that a producer sends these properties are taken off.
Rule 4: producers choose their ids. One means something only beside its topic and group (`scope`): nobody can end, by
accident or on purpose, the transaction of another.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from skyrocketmq.broker.message_writer import OutgoingMessage, properties_text
from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import TransactionType
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import with_transaction_type
from skyrocketmq.model.names import TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC, check_topic
from skyrocketmq.store import Buffer, NewMessage
from skyrocketmq.store.new_message import read_stored
from skyrocketmq.wire.properties import find_property, split_properties

__all__ = [
    "ENDS",
    "GIVEN_UP",
    "REPLACED",
    "TRANSACTION_QUEUE_ID",
    "HalfMessage",
    "committed_message",
    "half_message",
    "mark_message",
    "number_of",
    "outgoing_copy",
    "read_half",
    "read_mark",
    "shown",
    "transaction_name",
]

TRANSACTION_QUEUE_ID: Final = 0
QUEUE_ID_MAX: Final = 2**31 - 1
ENDS: Final = {TransactionType.COMMIT: b"commit", TransactionType.ROLLBACK: b"rollback"}
GIVEN_UP: Final = b"given up"
REPLACED: Final = b"replaced"

CLUSTER: Final = names.CLUSTER.encode()
GROUP: Final = names.PGROUP.encode()
REAL_TOPIC: Final = names.REAL_TOPIC.encode()
REAL_QUEUE_ID: Final = names.REAL_QUEUE_ID.encode()
CHECK_TIMES: Final = names.TRANSACTION_CHECK_TIMES.encode()
FIRST_OFFSET: Final = names.TRAN_PREPARED_QUEUE_OFFSET.encode()
END: Final = names.TRAN_END.encode()
_UNIQUE_ID: Final = names.UNIQ_KEY.encode()
_OURS: Final = (FIRST_OFFSET, CHECK_TIMES, END)


class HalfMessage(NamedTuple):
    """A half message as its record says."""

    topic: str  # where a commit puts it
    queue_id: int
    group: bytes  # of its producer
    transaction: bytes  # by what it is known; see `transaction_table`
    unique_id: bytes
    queue_offset: int  # in the half queue
    first_offset: int  # of the first copy
    is_copy: bool
    log_offset: int
    message: NewMessage  # as it was stored, in the half topic


def half_message(message: OutgoingMessage, *, cluster: bytes) -> tuple[NewMessage, bytes, bytes]:
    """What is stored for a message that is sent as a half message; its unique id, empty for none; the id's scope."""
    pairs = dict(message.properties)
    for name in _OURS:
        pairs.pop(name, None)
    pairs[CLUSTER] = cluster
    pairs[REAL_TOPIC] = message.topic.encode()
    pairs[REAL_QUEUE_ID] = b"%d" % message.queue_id
    half = NewMessage(
        topic=TRANSACTION_HALF_TOPIC,
        queue_id=TRANSACTION_QUEUE_ID,
        body=message.body,
        properties=properties_text(pairs),
        born_timestamp=message.born_ms,
        born_host=message.born_host,
        flag=message.flag,
        sys_flag=with_transaction_type(message.sys_flag, TransactionType.NONE),
        reconsume_times=message.reconsume_times,
    )
    return half, pairs.get(_UNIQUE_ID, b""), _scope(pairs)


def committed_message(half: HalfMessage) -> NewMessage:
    """What a commit makes of a half message."""
    return replace(
        half.message,
        topic=half.topic,
        queue_id=half.queue_id,
        sys_flag=with_transaction_type(half.message.sys_flag, TransactionType.COMMIT),
        prepared_transaction_offset=half.log_offset,
    )


def mark_message(end: bytes, unique_id: bytes, offset: int, *, now_ms: int, host: bytes) -> NewMessage:
    """The mark about the transaction of a half message at this offset; `end` is what TRAN_END says."""
    properties = b"TAGS\x01d\x02%b\x01%b" % (END, end)
    if unique_id:
        properties = b"%b\x01%b\x02%b" % (_UNIQUE_ID, unique_id, properties)
    return NewMessage(
        topic=TRANSACTION_OP_TOPIC,
        queue_id=TRANSACTION_QUEUE_ID,
        body=b"%d" % offset,
        properties=properties,
        born_timestamp=now_ms,
        born_host=host,
    )


def read_half(record: Buffer) -> HalfMessage:
    """What a record of the half topic says. Raises `MQError` for one that cannot be a half message."""
    # A body that has rotted on the disk would get a new checksum with the commit: it is checked here.
    message, queue_offset, log_offset = read_stored(record)
    pairs = split_properties(message.properties)
    topic = pairs.get(REAL_TOPIC, b"").decode("utf-8", "replace")
    queue_id = number_of(pairs.get(REAL_QUEUE_ID))
    if not topic or not 0 <= queue_id <= QUEUE_ID_MAX:
        raise ProtocolError(f"its properties do not say where it belongs: topic {topic!r}, queue {queue_id}")
    check_topic(topic)
    first_offset = number_of(pairs.get(FIRST_OFFSET))
    if first_offset < 0:
        first_offset = queue_offset
    unique_id = pairs.get(_UNIQUE_ID, b"")
    return HalfMessage(
        topic,
        queue_id,
        pairs.get(GROUP, b""),
        transaction_name(_scope(pairs), unique_id, first_offset),
        unique_id,
        queue_offset,
        first_offset,
        FIRST_OFFSET in pairs or CHECK_TIMES in pairs,
        log_offset,
        message,
    )


def read_mark(record: Buffer) -> tuple[int, bytes]:
    """The queue offset of the half message that a mark speaks of, -1 for what is no mark; what TRAN_END says.

    That is empty in marks of Apache's brokers: they speak of a transaction that is over.
    """
    message, _, _ = read_stored(record)
    if find_property(message.properties, b"TAGS") != b"d":
        return -1, b""
    return number_of(message.body), find_property(message.properties, END) or b""


def transaction_name(scope: bytes, unique_id: bytes, first_offset: int) -> bytes:
    """By what a transaction is known. No property holds the separator, so no two have one name."""
    return scope + (unique_id or b"\x02%d" % first_offset)


def shown(transaction: bytes) -> str:
    """The name of a transaction for people."""
    return transaction.replace(b"\x02", b" ").decode("utf-8", "replace")


def _scope(pairs: dict[bytes, bytes]) -> bytes:
    # Not the queue: a producer that had no answer sends the same message to another one.
    return b"%b\x02%b\x02" % (pairs.get(REAL_TOPIC, b""), pairs.get(GROUP, b""))


def outgoing_copy(half: HalfMessage) -> OutgoingMessage:
    """The half message as one that is stored again, with its properties to be changed."""
    message = half.message
    return OutgoingMessage(
        topic=TRANSACTION_HALF_TOPIC,
        queue_id=TRANSACTION_QUEUE_ID,
        body=message.body,
        properties=split_properties(message.properties),
        born_ms=message.born_timestamp,
        born_host=message.born_host,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        store_host=message.store_host,
    )


def number_of(text: bytes | None) -> int:
    """A number as properties hold it; -1 for what is none."""
    return int(text) if text is not None and text.isdigit() and len(text) < 20 else -1
