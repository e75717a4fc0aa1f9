"""Messages as records: the layout shared by commit log, pull answers and replication.

    | total 4 | magic 4 | body crc 4 | queue id 4 | flag 4 | queue offset 8 | log offset 8 | system flag 4 |
    | born time 8 | born host 8 or 20 | store time 8 | store host 8 or 20 | reconsumed 4 | prepared offset 8 |
    | body length 4 | body | topic length 1 | topic | properties length 2 | properties |

A hot module: every message stored, recovered or pulled passes here, so it deals in tuples and bound methods of
compiled structs instead of objects, and repeats a few lines rather than call a function for them.

Rule 1: the length fields decide where a record ends, and the total must agree; nothing else is believed.
Rule 2: bytes that are no record raise `ProtocolError`, whatever they are. A blank record (the filler at the end of a
log file) is no error: `scan_record` answers None, and the reader goes on at the next file.
Rule 3: bodies are stored as the producer sent them; only `decode_record` inflates, within a limit.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from skyrocketmq.errors import IllegalArgument, ProtocolError
from skyrocketmq.hot import split_records
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.message import MessageView
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.model.tables import MessageQueue
from skyrocketmq.wire.compression import INFLATED_BYTES_MAX, compression_type, decompress
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.properties import PROPERTIES_BYTES_MAX, decode_properties

if TYPE_CHECKING:
    from skyrocketmq.wire.java import ReadableData

MESSAGE_MAGIC: Final = 0xDAA320A7
BLANK_MAGIC: Final = 0xCBD43194
BLANK: Final = Struct(">iI")  # | space left in the file 4 | magic 4 |
BLANK_BYTES: Final = 8
TOPIC_BYTES_MAX: Final = 127  # the length field is a signed byte
INFLATED_BYTES_TOTAL_MAX: Final = 268_435_456  # of one answer: 32 messages of twice the usual limit, inflated

# One layout for each pair of host sizes, found by bits 4 and 5 of the system flag: (flag >> 4) & 3.
HEADS: Final = tuple(Struct(f">iIIiiqqiq{born}sq{store}siqi") for store in (8, 20) for born in (8, 20))
HEAD: Final = HEADS[0]  # both hosts IPv4, by far the most common
HEAD_BYTES: Final = 88
pack_head: Final = HEAD.pack
"""The first 88 bytes of a record with IPv4 hosts, everything before its body: total size, magic, body crc, queue id,
flag, queue offset, log offset, system flag, born time, born host (8 bytes), store time, store host (8 bytes),
reconsume times, prepared transaction offset, body length."""

FIXED_BYTES: Final = tuple(head.size + 3 for head in HEADS)  # all but body, topic and properties; by host bits
RECORD_BYTES_MIN: Final = 91
assert [head.size for head in HEADS] == [88, 100, 100, 112]
assert HEAD.size == HEAD_BYTES
assert FIXED_BYTES == (91, 103, 103, 115)
assert BLANK.size == BLANK_BYTES

# What a scan reads of the head: the flag and the born data are stepped over.
_SCANS: Final = tuple(Struct(f">iIIi4xqqi8x{born}xq{store}x4xqi") for store in (8, 20) for born in (8, 20))
_scan_v4: Final = _SCANS[0].unpack_from
_sizes_at: Final = BLANK.unpack_from
_topic_length: Final = tuple(bytes((count,)) for count in range(TOPIC_BYTES_MAX + 1))

ScannedRecord: TypeAlias = tuple[int, bytes, int, int, int, int, int, int, bytes]
"""(total bytes, topic, queue id, queue offset, log offset, system flag, store time ms, prepared offset, properties)"""


def record_bytes(sys_flag: int, *, body_bytes: int, topic_bytes: int, properties_bytes: int) -> int:
    """How long the record will be."""
    return FIXED_BYTES[(sys_flag >> 4) & 3] + body_bytes + topic_bytes + properties_bytes


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

    This is the form for tools, tests and rare messages; the append path of the store calls `pack_head` itself.
    """
    hosts = (sys_flag >> 4) & 3
    assert len(born_host) == (20 if hosts & 1 else 8), "the born host's size contradicts its bit of the system flag"
    assert len(store_host) == (20 if hosts & 2 else 8), "the store host's size contradicts its bit of the system flag"
    tail = encode_tail(topic, properties)
    head = HEADS[hosts]
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


def scan_record(data: ReadableData, at: int, end: int, *, check_crc: bool = True) -> ScannedRecord | None:
    """Check the record at `at` and give what queues and index need of it; None for a blank record.

    `end` is where the valid data ends at the latest. Raises `ProtocolError` if no whole, consistent record begins here.
    """
    if at < 0 or end > len(data) or end - at < RECORD_BYTES_MIN:
        if 0 <= at <= len(data) - BLANK_BYTES and end - at >= BLANK_BYTES:
            _check_blank(data, at, end)
            return None
        raise ProtocolError(f"{end - at} bytes at {at} are too few for a record")
    fields = _scan_v4(data, at)
    total, magic, crc, queue_id, queue_offset, log_offset, sys_flag, store_ms, prepared, body_length = fields
    if magic != MESSAGE_MAGIC:
        _check_blank(data, at, end)
        return None
    body_at = at + HEAD_BYTES
    if sys_flag & 0x30:
        scan = _SCANS[(sys_flag >> 4) & 3]
        if end - at < scan.size:
            raise ProtocolError(f"the record at {at} breaks off in its head")
        _, _, _, _, _, _, _, store_ms, prepared, body_length = scan.unpack_from(data, at)
        body_at = at + scan.size
    # Everything is measured against the record's own end before it is touched.
    record_end = at + total
    topic_at = body_at + body_length + 1
    if record_end > end or body_length < 0 or topic_at + 2 > record_end:
        raise ProtocolError(f"the record at {at} has a body of {body_length} in a total of {total} bytes")
    topic_end = topic_at + data[topic_at - 1]
    properties_at = topic_end + 2
    if properties_at > record_end:
        raise ProtocolError(f"the record at {at} has a topic that does not fit in its total of {total} bytes")
    properties_length = (data[topic_end] << 8) | data[topic_end + 1]
    if (
        properties_at + properties_length != record_end
        or properties_length > PROPERTIES_BYTES_MAX
        or topic_end - topic_at > TOPIC_BYTES_MAX
    ):
        raise ProtocolError(f"the record at {at} announces {total} bytes, its parts do not add up to that")
    if check_crc and body_crc(data[body_at : topic_at - 1]) != crc:
        raise ProtocolError(f"the body of the record at {at} does not match its checksum {crc:#010x}")
    return (
        total,
        bytes(data[topic_at:topic_end]),
        queue_id,
        queue_offset,
        log_offset,
        sys_flag,
        store_ms,
        prepared,
        bytes(data[properties_at:record_end]),
    )


def _check_blank(data: ReadableData, at: int, end: int) -> None:
    total, magic = _sizes_at(data, at)
    if magic != BLANK_MAGIC:
        raise ProtocolError(f"no record begins at {at}: its magic code is {magic:#010x}")
    if not BLANK_BYTES <= total <= end - at:
        raise ProtocolError(f"the blank record at {at} announces {total} bytes, {end - at} are left")


def record_queue_offset(data: ReadableData, at: int) -> int:
    """Where in its queue the record at `at` lies, whatever else is wrong with it; for the log."""
    fields = _scan_v4(data, at)
    return int(fields[4])


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
    total, topic_utf8, queue_id, queue_offset, log_offset, sys_flag, store_timestamp, prepared, properties = scanned
    head = HEADS[(sys_flag >> 4) & 3]
    _, _, crc, _, flag, _, _, _, born_timestamp, born_host, _, store_host, reconsumed, _, body_length = (
        head.unpack_from(data, at)
    )
    body_at = at + head.size
    body = bytes(data[body_at : body_at + body_length])
    if inflate and sys_flag & BODY_COMPRESSED:
        body = decompress(body, compression_type(sys_flag), bytes_max=body_bytes_max)
    topic = topic_utf8.decode("utf-8", "replace")
    return MessageView(
        topic=topic,
        body=body,
        properties=decode_properties(properties),
        queue=MessageQueue(topic, broker_name, queue_id),
        queue_offset=QueueOffset(queue_offset),
        log_offset=LogOffset(log_offset),
        born_timestamp=born_timestamp,
        born_host_packed=born_host,
        store_timestamp=store_timestamp,
        store_host_packed=store_host,
        flag=flag,
        sys_flag=sys_flag,
        reconsume_times=reconsumed,
        prepared_transaction_offset=LogOffset(prepared),
        body_crc=crc,
        stored_bytes=total,
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
