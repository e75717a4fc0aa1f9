"""Messages as records: what commit log, pull answers and replication have in common. `hot.layout` draws a record.

Whether a record is whole is for `scan_record` to say. The readers of single fields (`store_time_of`, `body_of` and so
on) take a record that was found whole before.

Rule 1: the length fields decide where a record ends, and the total must agree; nothing else is believed.
Rule 2: bytes that are no record raise `ProtocolError`, whatever they are. A blank record (the filler at the end of a
log file) is no error: `scan_record` answers None, and the reader goes on at the next file.
Rule 3: bodies are stored as the producer sent them; only `decode_record` inflates, within a limit.
Rule 4: nobody else takes records apart: all other modules get fields by the functions here.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from skyrocketmq.errors import IllegalArgument, ProtocolError
from skyrocketmq.hot import scan_record, split_records
from skyrocketmq.hot.layout import (
    BLANK_BYTES,
    BLANK_FORMAT,
    BLANK_MAGIC,
    RECORD_BORN_IPV6,
    RECORD_BYTES_MIN,
    RECORD_HEAD_FORMATS,
    RECORD_HOST_BYTES,
    RECORD_HOST_BYTES_IPV6,
    RECORD_HOSTS_MASK,
    RECORD_HOSTS_SHIFT,
    RECORD_IPV6_BYTES,
    RECORD_LOG_OFFSET_AT,
    RECORD_MAGIC_AT,
    RECORD_PROPERTIES_LENGTH_BYTES,
    RECORD_QUEUE_OFFSET_AT,
    RECORD_STORE_IPV6,
    RECORD_STORE_TIME_AT,
    RECORD_SYS_FLAG_AT,
    RECORD_TOPIC_LENGTH_BYTES,
)
from skyrocketmq.hot.layout import RECORD_HEAD_BYTES as HEAD_BYTES
from skyrocketmq.hot.layout import RECORD_MAGIC as MESSAGE_MAGIC
from skyrocketmq.hot.layout import RECORD_TOPIC_BYTES_MAX as TOPIC_BYTES_MAX
from skyrocketmq.hot.log_records import ScannedRecord
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.message import MessageView
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.model.tables import MessageQueue
from skyrocketmq.wire.compression import INFLATED_BYTES_MAX, compression_type, decompress
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.properties import PROPERTIES_BYTES_MAX, decode_properties

if TYPE_CHECKING:
    from skyrocketmq.wire.java import ReadableData

__all__ = [
    "BLANK_BYTES",
    "BLANK_MAGIC",
    "HEADS",
    "HEAD_BYTES",
    "MESSAGE_MAGIC",
    "RECORD_BYTES_MIN",
    "TOPIC_BYTES_MAX",
    "RecordHead",
    "ScannedRecord",
    "body_of",
    "decode_record",
    "decode_records",
    "encode_blank",
    "encode_record",
    "encode_tail",
    "find_magic",
    "head_bytes_of",
    "log_offset_of",
    "pack_head",
    "properties_of",
    "queue_offset_of",
    "read_head",
    "record_bytes",
    "scan_record",
    "sizes_at",
    "store_time_of",
    "sys_flag_of",
    "topic_of",
]

BLANK: Final = Struct(BLANK_FORMAT)
INFLATED_BYTES_TOTAL_MAX: Final = 268_435_456  # of one answer: 32 messages of twice the usual limit, inflated

# One layout for each pair of host sizes, found by `head_of`.
HEADS: Final = tuple(Struct(text) for text in RECORD_HEAD_FORMATS)
HEAD: Final = HEADS[0]  # both hosts IPv4, by far the most common
pack_head: Final = HEAD.pack
"""The first 88 bytes of a record with IPv4 hosts, everything before its body: total size, magic, body crc, queue id,
flag, queue offset, log offset, system flag, born time, born host (8 bytes), store time, store host (8 bytes),
reconsume times, prepared transaction offset, body length."""

assert BLANK.size == BLANK_BYTES
assert HEAD.size == HEAD_BYTES
assert [head.size - HEAD_BYTES for head in HEADS] == [0, RECORD_IPV6_BYTES, RECORD_IPV6_BYTES, 2 * RECORD_IPV6_BYTES]
assert RECORD_BYTES_MIN == HEAD_BYTES + RECORD_TOPIC_LENGTH_BYTES + RECORD_PROPERTIES_LENGTH_BYTES
_MAGIC: Final = MESSAGE_MAGIC.to_bytes(4, "big")
_topic_length: Final = tuple(bytes((count,)) for count in range(TOPIC_BYTES_MAX + 1))
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


def record_bytes(sys_flag: int, *, body_bytes: int, topic_bytes: int, properties_bytes: int) -> int:
    """How long the record will be."""
    tail_bytes = RECORD_TOPIC_LENGTH_BYTES + topic_bytes + RECORD_PROPERTIES_LENGTH_BYTES + properties_bytes
    return head_bytes_of(sys_flag) + body_bytes + tail_bytes


def encode_tail(topic: bytes, properties: bytes) -> bytes:
    """What follows the body: topic and properties with their lengths. Senders repeat it, so keep it where you can."""
    if not 0 < len(topic) <= TOPIC_BYTES_MAX:
        raise IllegalArgument(f"the topic takes {len(topic)} bytes, allowed are 1 to {TOPIC_BYTES_MAX}")
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise IllegalArgument(f"the properties take {len(properties)} bytes, allowed are {PROPERTIES_BYTES_MAX}")
    return b"%b%b%b%b" % (_topic_length[len(topic)], topic, len(properties).to_bytes(2, "big"), properties)


def encode_record(
    *,
    topic: bytes,
    body: bytes,
    properties: bytes,
    queue_id: int,
    queue_offset: int,
    log_offset: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    crc: int | None = None,
) -> bytes:
    """One whole record. Hosts are packed (IP and 4-byte port); their sizes must agree with the system flag's bits.

    This is the form for tools, tests and rare messages.
    """
    for what, host, bit in (("born", born_host, RECORD_BORN_IPV6), ("store", store_host, RECORD_STORE_IPV6)):
        expected = RECORD_HOST_BYTES_IPV6 if sys_flag & bit else RECORD_HOST_BYTES
        assert len(host) == expected, f"the {what} host's size contradicts its bit of the system flag"
    tail = encode_tail(topic, properties)
    head = _head(sys_flag)
    return b"%b%b%b" % (
        head.pack(
            head.size + len(body) + len(tail),
            MESSAGE_MAGIC,
            body_crc(body) if crc is None else crc,
            queue_id,
            flag,
            queue_offset,
            log_offset,
            sys_flag,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            len(body),
        ),
        body,
        tail,
    )


def encode_blank(space_bytes: int) -> bytes:
    """The record that fills up a log file: only its first 8 bytes are written, whatever the space left is."""
    assert space_bytes >= BLANK_BYTES, "the writer always leaves room for a blank record"
    return BLANK.pack(space_bytes, BLANK_MAGIC)


def decode_record(
    data: ReadableData,
    at: int = 0,
    end: int | None = None,
    *,
    broker_name: str = "",
    inflate: bool = True,
    body_bytes_max: int = INFLATED_BYTES_MAX,
) -> MessageView:
    """The message of the record at `at`, its body inflated unless that is not wanted (`inflate=False`).

    The checksum is not looked at: the store did that, and TCP has its own. Raises `ProtocolError` if there is no
    whole record, or if its body cannot be inflated within `body_bytes_max`.
    """
    stop = len(data) if end is None else end
    scanned = scan_record(data, at, stop, check_crc=False)
    if scanned is None:
        raise ProtocolError(f"the record at {at} is the blank end of a log file, no message")
    head = read_head(data, at)
    body = body_of(data, at)
    if inflate and head.sys_flag & BODY_COMPRESSED:
        body = decompress(body, compression_type(head.sys_flag), bytes_max=body_bytes_max)
    topic = scanned.topic.decode("utf-8", "replace")
    return MessageView(
        topic=topic,
        body=body,
        properties=decode_properties(scanned.properties),
        queue=MessageQueue(topic, broker_name, head.queue_id),
        queue_offset=QueueOffset(head.queue_offset),
        log_offset=LogOffset(head.log_offset),
        born_timestamp=head.born_ms,
        born_host_packed=head.born_host,
        store_timestamp=head.store_ms,
        store_host_packed=head.store_host,
        flag=head.flag,
        sys_flag=head.sys_flag,
        reconsume_times=head.reconsumed,
        prepared_transaction_offset=LogOffset(head.prepared_offset),
        body_crc=head.crc,
        stored_bytes=head.total_bytes,
    )


def decode_records(
    data: ReadableData,
    *,
    broker_name: str = "",
    inflate: bool = True,
    body_bytes_max: int = INFLATED_BYTES_MAX,
    total_bytes_max: int = INFLATED_BYTES_TOTAL_MAX,
) -> list[MessageView]:
    """All messages of a pull or query answer; all bodies together may grow to `total_bytes_max`.

    One bad record spoils the answer. A reader that would rather step over it (Apache's drops it and all that follow)
    takes `split_records` and decodes one by one.
    """
    messages: list[MessageView] = []
    left = total_bytes_max
    for at, end in split_records(data):
        limit = min(body_bytes_max, max(left, 0))
        message = decode_record(data, at, end, broker_name=broker_name, inflate=inflate, body_bytes_max=limit)
        left -= len(message.body)
        messages.append(message)
    return messages


# ---------------------------------------------------------------------------------------------- fields of whole records


class RecordHead(NamedTuple):
    """Everything before the body."""

    total_bytes: int
    magic: int
    crc: int
    queue_id: int
    flag: int
    queue_offset: int
    log_offset: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsumed: int
    prepared_offset: int
    body_bytes: int


def read_head(data: ReadableData, at: int = 0) -> RecordHead:
    """The head of the record at `at`."""
    return RecordHead._make(_head(sys_flag_of(data, at)).unpack_from(data, at))


def sizes_at(data: ReadableData, at: int = 0) -> tuple[int, int]:
    """Total and magic code of what may be a record or a blank one: its first `BLANK_BYTES`."""
    total, magic = BLANK.unpack_from(data, at)
    return total, magic


def find_magic(data: bytes, at: int) -> int:
    """Where the first thing begins, from `at` on, that has the magic code of a record; -1 if there is none."""
    found = data.find(_MAGIC, at + RECORD_MAGIC_AT)
    return found - RECORD_MAGIC_AT if found >= 0 else -1


def head_bytes_of(sys_flag: int) -> int:
    """Where the body begins in a record with this system flag."""
    return _head(sys_flag).size


def _head(sys_flag: int) -> Struct:
    return HEADS[sys_flag >> RECORD_HOSTS_SHIFT & RECORD_HOSTS_MASK]


def sys_flag_of(data: ReadableData, at: int = 0) -> int:
    return int(_INT32.unpack_from(data, at + RECORD_SYS_FLAG_AT)[0])


def queue_offset_of(data: ReadableData, at: int = 0) -> int:
    return int(_INT64.unpack_from(data, at + RECORD_QUEUE_OFFSET_AT)[0])


def log_offset_of(data: ReadableData, at: int = 0) -> int:
    return int(_INT64.unpack_from(data, at + RECORD_LOG_OFFSET_AT)[0])


def store_time_of(data: ReadableData, at: int = 0) -> int:
    moved = RECORD_IPV6_BYTES if sys_flag_of(data, at) & RECORD_BORN_IPV6 else 0
    return int(_INT64.unpack_from(data, at + RECORD_STORE_TIME_AT + moved)[0])


def body_of(data: ReadableData, at: int = 0) -> bytes:
    begin, end = _body_bounds(data, at)
    return bytes(data[begin:end])


def topic_of(data: ReadableData, at: int = 0) -> bytes:
    _, length_at = _body_bounds(data, at)
    topic_at = length_at + RECORD_TOPIC_LENGTH_BYTES
    return bytes(data[topic_at : topic_at + data[length_at]])


def properties_of(data: ReadableData, at: int = 0) -> bytes:
    _, length_at = _body_bounds(data, at)
    before = RECORD_TOPIC_LENGTH_BYTES + data[length_at] + RECORD_PROPERTIES_LENGTH_BYTES
    return bytes(data[length_at + before : at + sizes_at(data, at)[0]])


def _body_bounds(data: ReadableData, at: int) -> tuple[int, int]:
    begin = at + head_bytes_of(sys_flag_of(data, at))
    return begin, begin + int(_INT32.unpack_from(data, begin - _INT32.size)[0])  # its length ends the head
