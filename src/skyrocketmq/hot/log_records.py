"""Records as the log has them: which are whole, and what queues and index keep of them. For recovery, slaves and tools.

    good_end = check_records(data, at, end, log_offset=begin + at)
    entries = derive_entries(data, at, good_end, topics=topics, delay_levels_ms=levels)

Cost, a message of 128 B with a unique id and a tag (`python -m benchmarks hot`): compiled 30 ns to check it, 0.3 us if
its body is checked too, and 0.4 us to derive its entries; in plain Python 3, 3 and 13 us.

Rule 1: the length fields decide where a record ends, and the total must agree; nothing else is believed.
Rule 2: what is no whole record ends a check and raises `ProtocolError` elsewhere, whatever it is. Only a blank record,
the filler at the end of a log file, is no error: `scan_record` answers None.
Rule 3: of a property that occurs twice the last value counts, of those that are not empty.
Rule 4: prepared and rolled back messages have no place in a queue, nor has one with a negative number. All but those
rolled back are indexed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot.checksum import body_crc
from skyrocketmq.hot.hashes import text_hash
from skyrocketmq.hot.index_entries import pack_key
from skyrocketmq.hot.layout import (
    BLANK_BYTES,
    BLANK_FORMAT,
    BLANK_MAGIC,
    CELL_BYTES,
    DELAY_PROPERTY,
    KEYS_PROPERTY,
    RECORD_BYTES_MIN,
    RECORD_HEAD_BYTES,
    RECORD_HEAD_FORMATS,
    RECORD_HOSTS_MASK,
    RECORD_HOSTS_SHIFT,
    RECORD_MAGIC,
    RECORD_PROPERTIES_BYTES_MAX,
    RECORD_ROLLED_BACK,
    RECORD_TOPIC_BYTES_MAX,
    RECORD_TRANSACTION_BITS,
    RECORD_UNQUEUED,
    SCHEDULE_TOPIC,
    TAGS_PROPERTY,
    UNIQ_KEY_PROPERTY,
    UNKNOWN_LEVEL_MS,
)

if TYPE_CHECKING:
    from mmap import mmap

    ReadableBytes = bytes | bytearray | memoryview | mmap

__all__ = ["check_records", "derive_entries", "scan_record"]

ALWAYS: Final = 0x7FFF_FFFF_FFFF_FFFF  # no log offset is larger
_HEADS: Final = tuple(Struct(text) for text in RECORD_HEAD_FORMATS)
_CELL: Final = Struct(">qiq")
_sizes_at = Struct(BLANK_FORMAT).unpack_from


class ScannedRecord(NamedTuple):
    """What queues and index need of a record."""

    total_bytes: int
    topic: bytes
    queue_id: int
    queue_offset: int
    log_offset: int
    sys_flag: int
    store_ms: int
    prepared_offset: int
    properties: bytes


class QueueRun(NamedTuple):
    """The cells of messages that follow each other in one queue."""

    topic: bytes
    queue_id: int
    queue_offset: int  # of the first
    cells: bytes | bytearray

    @property
    def end(self) -> int:
        """The queue offset after the last."""
        return self.queue_offset + len(self.cells) // CELL_BYTES


class DerivedEntries(NamedTuple):
    """What queues and index keep of a stretch of records."""

    runs: list[QueueRun]  # in the order of their first messages
    keys: bytes  # packed, in the order of the log
    record_count: int
    last_offset: int  # log offset of the last of them; -1 if there is none
    last_store_ms: int


def scan_record(data: ReadableBytes, at: int, end: int, *, check_crc: bool = True) -> ScannedRecord | None:
    """Check the record at `at` and give what queues and index need of it; None for a blank record.

    `end` is where the valid data ends at the latest. Raises `ProtocolError` if no whole, consistent record begins here.
    """
    if at < 0 or end > len(data) or end - at < RECORD_BYTES_MIN:
        if 0 <= at <= len(data) - BLANK_BYTES and end - at >= BLANK_BYTES:
            _check_blank(data, at, end)
            return None
        raise ProtocolError(f"{end - at} bytes at {at} are too few for a record")
    head, body_at = _HEADS[0].unpack_from(data, at), at + RECORD_HEAD_BYTES
    total, magic, sys_flag = head[0], head[1], head[7]
    if magic != RECORD_MAGIC:
        _check_blank(data, at, end)
        return None
    if hosts := sys_flag >> RECORD_HOSTS_SHIFT & RECORD_HOSTS_MASK:
        body_at = at + _HEADS[hosts].size
        if body_at > end:
            raise ProtocolError(f"the record at {at} breaks off in its head")
        head = _HEADS[hosts].unpack_from(data, at)
    _, _, crc, queue_id, _, queue_offset, log_offset, _, _, _, store_ms, _, _, prepared, body_bytes = head
    # Everything is measured against the record's own end before it is touched.
    record_end, topic_at = at + total, body_at + body_bytes + 1
    if record_end > end or body_bytes < 0 or topic_at + 2 > record_end:
        raise ProtocolError(f"the record at {at} has a body of {body_bytes} in a total of {total} bytes")
    topic_end = topic_at + data[topic_at - 1]
    properties_at = topic_end + 2
    if properties_at > record_end:
        raise ProtocolError(f"the record at {at} has a topic that does not fit in its total of {total} bytes")
    properties_bytes = int.from_bytes(data[topic_end:properties_at], "big")
    if (
        properties_at + properties_bytes != record_end
        or properties_bytes > RECORD_PROPERTIES_BYTES_MAX
        or topic_end - topic_at > RECORD_TOPIC_BYTES_MAX
    ):
        raise ProtocolError(f"the record at {at} announces {total} bytes, its parts do not add up to that")
    if check_crc and body_crc(data[body_at : topic_at - 1]) != crc:
        raise ProtocolError(f"the body of the record at {at} does not match its checksum {crc:#010x}")
    topic, properties = bytes(data[topic_at:topic_end]), bytes(data[properties_at:record_end])
    return ScannedRecord(
        total, topic, queue_id, queue_offset, log_offset, sys_flag, store_ms, prepared, properties
    )  # fmt: skip


def check_records(
    data: ReadableBytes,
    at: int,
    end: int,
    *,
    log_offset: int,
    stop: int = ALWAYS,
    check_crc: bool = False,
    nul_from: int = ALWAYS,
) -> int:
    """Where the whole records end that follow each other from `at` on; `at` if none begins there.

    The first says that it stands at `log_offset` of the log, each of the others that it follows on. No record counts
    that begins at log offset `stop` or after it, nor one from `nul_from` on with a NUL in its topic or properties:
    these have no checksum, and a NUL may be a byte that was never written.
    """
    while log_offset < stop:
        try:
            record = scan_record(data, at, end, check_crc=check_crc)
        except ProtocolError:
            break
        if record is None or record.log_offset != log_offset:
            break
        if log_offset >= nul_from and b"\0" in record.topic + record.properties:
            break
        at += record.total_bytes
        log_offset += record.total_bytes
    return at


def derive_entries(
    data: ReadableBytes, at: int, end: int, *, topics: Mapping[bytes, int | None], delay_levels_ms: Sequence[int]
) -> DerivedEntries:
    """What queues and index keep of the records from `at` to `end`.

    `topics` gives the hash of `topic#` for the topic of a record; None for one whose messages have no place anywhere.
    Raises `ProtocolError` if these are not whole records one after the other; checksums are not looked at.
    """
    runs: list[QueueRun] = []
    open_runs: dict[tuple[bytes, int], tuple[int, bytearray]] = {}  # the offset that goes on, and the cells so far
    keys: list[bytes] = []
    count, last_offset, last_store_ms = 0, -1, 0
    while at < end:
        record = scan_record(data, at, end, check_crc=False)
        if record is None:
            raise ProtocolError(f"the record at {at} is the blank end of a log file")
        at += record.total_bytes
        count, last_offset, last_store_ms = count + 1, record.log_offset, record.store_ms
        if (start := topics[record.topic]) is None:
            continue
        pairs = property_pairs(record.properties)
        keys += [pack_key(key, start, last_offset, last_store_ms) for key in index_keys(record, pairs)]
        if (code := tags_code(record, pairs, delay_levels_ms)) is None:
            continue
        offset = record.queue_offset
        following, cells = open_runs.get((record.topic, record.queue_id), (-1, bytearray()))
        if offset != following:
            cells = bytearray()
            runs.append(QueueRun(record.topic, record.queue_id, offset, cells))
        cells += _CELL.pack(record.log_offset, record.total_bytes, code)
        open_runs[record.topic, record.queue_id] = offset + 1, cells
    return DerivedEntries(runs, b"".join(keys), count, last_offset, last_store_ms)


def property_pairs(properties: bytes) -> dict[bytes, bytes]:
    """The properties that have a name and a value."""
    pairs = (pair.partition(b"\x01") for pair in properties.split(b"\x02"))
    return {name: value for name, _, value in pairs if name and value}


def index_keys(record: ScannedRecord, pairs: Mapping[bytes, bytes]) -> list[bytes]:
    """The keys by which the index finds a message with these properties: its unique id first."""
    if record.sys_flag & RECORD_TRANSACTION_BITS == RECORD_ROLLED_BACK:
        return []
    return [key for key in (pairs.get(UNIQ_KEY_PROPERTY), *pairs.get(KEYS_PROPERTY, b"").split(b" ")) if key]


def tags_code(record: ScannedRecord, pairs: Mapping[bytes, bytes], delay_levels_ms: Sequence[int]) -> int | None:
    """What the cell keeps beside the record's place: the hash of the tags, 0 for none; None if there is no cell.

    The cells of messages that wait in the schedule topic keep the time of their delivery instead.
    """
    if record.sys_flag & RECORD_UNQUEUED or record.queue_id < 0 or record.queue_offset < 0:
        return None
    delay = pairs.get(DELAY_PROPERTY, b"") if record.topic == SCHEDULE_TOPIC else b""
    digits = delay.lstrip(b"0")
    if digits.isdigit() and delay.isdigit():
        level = min(int(digits[:10]), len(delay_levels_ms))  # ten digits are more than any number of levels
        due_ms = record.store_ms + (delay_levels_ms[level - 1] if level else UNKNOWN_LEVEL_MS)
        return (due_ms + (1 << 63)) % (1 << 64) - (1 << 63)
    return text_hash(pairs.get(TAGS_PROPERTY, b""))


def _check_blank(data: ReadableBytes, at: int, end: int) -> None:
    total, magic = _sizes_at(data, at)
    if magic != BLANK_MAGIC:
        raise ProtocolError(f"no record begins at {at}: its magic code is {magic:#010x}")
    if not BLANK_BYTES <= total <= end - at:
        raise ProtocolError(f"the blank record at {at} announces {total} bytes, {end - at} are left")
