"""The records of transactions: half messages, what a commit makes of them, and the marks that one is ended.

A module with hot loops: what half messages of one producer share is worked out once and looked up.

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

from skyrocketmq.broker.message_writer import OutgoingMessage, properties_text
from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import TransactionType
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import with_transaction_type
from skyrocketmq.model.names import TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from skyrocketmq.store import Buffer, ConsumeQueue, MessageStore, RecordShape, split_unique_key
from skyrocketmq.store.learnt import Learnt
from skyrocketmq.store.record_shape import UNIQ_MARK
from skyrocketmq.wire.properties import find_property, split_properties
from skyrocketmq.wire.records import HEADS, scan_record

__all__ = [
    "ENDS",
    "GIVEN_UP",
    "REPLACED",
    "TRANSACTION_QUEUE_ID",
    "HalfMessage",
    "TransactionRecords",
    "number_of",
    "outgoing_copy",
    "shown",
    "transaction_name",
]

TRANSACTION_QUEUE_ID: Final = 0
MARKS_MAX: Final = 4096  # kept: by the length of an id
QUEUE_ID_MAX: Final = 2**31 - 1
ENDS: Final = {TransactionType.COMMIT: b"commit", TransactionType.ROLLBACK: b"rollback"}
GIVEN_UP: Final = b"given up"
REPLACED: Final = b"replaced"

WAIT: Final = names.WAIT.encode()
CLUSTER: Final = names.CLUSTER.encode()
GROUP: Final = names.PGROUP.encode()
REAL_TOPIC: Final = names.REAL_TOPIC.encode()
REAL_QUEUE_ID: Final = names.REAL_QUEUE_ID.encode()
CHECK_TIMES: Final = names.TRANSACTION_CHECK_TIMES.encode()
FIRST_OFFSET: Final = names.TRAN_PREPARED_QUEUE_OFFSET.encode()
END: Final = names.TRAN_END.encode()
_MARK_AFTER: Final = b"\x02TAGS\x01d\x02%b\x01%%b" % END
_OURS: Final = (FIRST_OFFSET, CHECK_TIMES, END)


class HalfKind(NamedTuple):
    """What half messages have in common that differ in nothing but their unique id."""

    topic: str
    queue: ConsumeQueue  # where a commit puts them
    shape: RecordShape  # of the committed message
    group: bytes
    scope: bytes  # of the unique id
    first_offset: int  # of a copy: where the first half message lay; -1 for a first one
    is_copy: bool


class HalfMessage(NamedTuple):
    """A half message as its record says."""

    kind: HalfKind
    transaction: bytes  # by what it is known; see `transaction_table`
    unique_id: bytes
    queue_offset: int
    first_offset: int  # of the first copy
    log_offset: int
    body: bytes
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int
    store_host: bytes


class TransactionRecords:
    """Reads and shapes the records of one broker's transactions."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._kinds: Learnt[tuple[bytes, int, bytes], HalfKind] = Learnt()
        self._half_shapes: Learnt[tuple[str, int, bytes, bytes, int, bytes], tuple[RecordShape, bytes]] = Learnt()
        self._marks: dict[tuple[bytes, int], RecordShape] = {}

    # ------------------------------------------------------------------------------------------------------- writing

    def half_shape(
        self, topic: str, queue_id: int, properties: bytes, *, cluster: bytes
    ) -> tuple[RecordShape, bytes, bytes]:
        """The shape of a half message for a queue; its unique id, which is empty if it has none; the id's scope."""
        before, key, after = split_unique_key(properties)
        place = (topic, queue_id, cluster, before, len(key), after)
        known = self._half_shapes.get(place)
        if known is not None and key.isascii():
            return known[0], key, known[1]
        pairs = split_properties(properties)
        for name in _OURS:
            pairs.pop(name, None)
        pairs[CLUSTER] = cluster
        pairs[REAL_TOPIC] = topic.encode()
        pairs[REAL_QUEUE_ID] = b"%d" % queue_id
        stored = properties_text(pairs)
        stored_before, stored_key, stored_after = split_unique_key(stored)
        shape = self._store.shape(TRANSACTION_HALF_TOPIC, stored_before, stored_key, stored_after)
        scope = _scope(pairs)
        # Kept for others like it; not where each has keys of its own, or where the sender does not want to wait.
        if key and key == stored_key and not shape.keys and pairs.get(WAIT, b"true").lower() == b"true":
            self._half_shapes.learn(place, (shape, scope), text_bytes=len(properties))
        return shape, stored_key, scope

    def knows_half(self, topic: str, queue_id: int, properties: bytes, *, cluster: bytes) -> bool:
        """Whether a half message with these properties, but for its unique id, was shaped before."""
        before, key, after = split_unique_key(properties)
        return key.isascii() and (topic, queue_id, cluster, before, len(key), after) in self._half_shapes

    def mark_shape(self, end: bytes, unique_id: bytes) -> RecordShape:
        """The shape of a mark about a transaction with this unique id; `end` is what TRAN_END says."""
        shape = self._marks.get((end, len(unique_id)))
        if shape is None:
            after = _MARK_AFTER % end
            before, after = (UNIQ_MARK, after) if unique_id else (after[1:], b"")
            shape = self._store.shape(TRANSACTION_OP_TOPIC, before, unique_id, after)
            if len(self._marks) < MARKS_MAX:
                self._marks[end, len(unique_id)] = shape
        return shape

    # ------------------------------------------------------------------------------------------------------- reading

    def read_half(self, record: Buffer) -> HalfMessage:
        """What a record of the half topic says. Raises `MQError` for one that cannot be a half message."""
        # A body that has rotted on the disk would get a new checksum with the commit: it is checked here.
        scanned = scan_record(record, 0, len(record))
        if scanned is None:
            raise ProtocolError("the end of a log file is no half message")
        _, _, _, queue_offset, log_offset, sys_flag, _, _, properties = scanned
        head = HEADS[(sys_flag >> 4) & 3]
        _, _, _, _, flag, _, _, _, born_ms, born_host, _, store_host, reconsumed, _, body_bytes = head.unpack_from(
            record
        )
        before, key, after = split_unique_key(properties)
        kind = self._kinds.get((before, len(key), after)) or self._learn(before, key, after)
        first_offset = queue_offset if kind.first_offset < 0 else kind.first_offset
        return HalfMessage(
            kind,
            transaction_name(kind.scope, key, first_offset),
            key,
            queue_offset,
            first_offset,
            log_offset,
            bytes(record[head.size : head.size + body_bytes]),
            flag,
            sys_flag,
            born_ms,
            born_host,
            reconsumed,
            store_host,
        )

    def _learn(self, before: bytes, key: bytes, after: bytes) -> HalfKind:
        pairs = split_properties(b"%b%b%b" % (before, key, after))
        topic = pairs.get(REAL_TOPIC, b"").decode("utf-8", "replace")
        queue_id = number_of(pairs.get(REAL_QUEUE_ID))
        if not topic or not 0 <= queue_id <= QUEUE_ID_MAX:
            raise ProtocolError(f"its properties do not say where it belongs: topic {topic!r}, queue {queue_id}")
        kind = HalfKind(
            topic,
            self._store.queue(topic, queue_id),
            self._store.shape(topic, before, key, after),
            pairs.get(GROUP, b""),
            _scope(pairs),
            number_of(pairs.get(FIRST_OFFSET)),
            FIRST_OFFSET in pairs or CHECK_TIMES in pairs,
        )
        if not kind.is_copy:  # each copy says where its first one lay: they have nothing in common
            self._kinds.learn((before, len(key), after), kind, text_bytes=len(before) + len(after))
        return kind

    def forget_queues(self) -> None:
        """Topics were deleted: queues that are kept here may be gone."""
        self._kinds.clear()

    @staticmethod
    def committed_flag(half: HalfMessage) -> int:
        return with_transaction_type(half.sys_flag, TransactionType.COMMIT)

    @staticmethod
    def read_mark(record: Buffer) -> tuple[int, bytes]:
        """The queue offset of the half message that a mark speaks of, -1 for what is no mark; what TRAN_END says.

        That is empty in marks of a broker of another make: they speak of a transaction that is over.
        """
        scanned = scan_record(record, 0, len(record))
        if scanned is None or find_property(scanned[8], b"TAGS") != b"d":
            return -1, b""
        head = HEADS[(scanned[5] >> 4) & 3]
        body_bytes: int = head.unpack_from(record)[-1]
        offset = number_of(bytes(record[head.size : head.size + body_bytes]))
        return offset, find_property(scanned[8], END) or b""


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
    shape = half.kind.shape
    return OutgoingMessage(
        topic=TRANSACTION_HALF_TOPIC,
        queue_id=TRANSACTION_QUEUE_ID,
        body=half.body,
        properties=split_properties(b"%b%b%b" % (shape.before, half.unique_id, shape.after)),
        born_ms=half.born_ms,
        born_host=half.born_host,
        flag=half.flag,
        sys_flag=half.sys_flag,
        reconsume_times=half.reconsume_times,
        store_host=half.store_host,
    )


def number_of(text: bytes | None) -> int:
    """A number as properties hold it; -1 for what is none."""
    return int(text) if text is not None and text.isdigit() and len(text) < 20 else -1
