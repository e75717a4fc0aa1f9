"""Both sides of an audit, read by tasks: what the log says that queues and index should hold, and what they hold.

A hot module: a record takes a few Python steps, cells and entries none.

    a part of the log    ->  its cells and entries as they should be, stretches without a good record, what was read
    a file of a queue    ->  its cells that lead into the log
    a file of the index  ->  its entries that lead into the log, and whether they hang together

Rule 1: the log counts from `log_begin` up to `log_end`, as planned: what a broker appends meanwhile is on neither side.
Rule 2: queues and index are read whole and never searched: a search trusts the order that is to be checked.
Rule 3: memory is bounded: a piece of the log and `CHUNK` records, or so many cells; of an index file also its slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SLOT_BYTES
from skyrocketmq.spark.store_cells import CELLS, FewFiles
from skyrocketmq.spark.store_planning import IndexPart, LogPart
from skyrocketmq.store.consume_queue import CELL_BYTES, FILLER_SIZE
from skyrocketmq.store.inspection_records import RecordPlaces
from skyrocketmq.store.log_scan import LogScan
from skyrocketmq.wire.records import BLANK_BYTES, BLANK_MAGIC, scan_record, sizes_at

__all__ = ["AuditPart", "Cells", "Entries", "Found", "QueueFile", "Read", "Rules", "Seen", "read_part"]

CHUNK: Final = 50_000
_ENTRIES: Final = np.dtype([("key_hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
assert _ENTRIES.itemsize == INDEX_ENTRY_BYTES
_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rules:
    """What all tasks know."""

    config: StoreConfig
    log_begin: int
    log_end: int
    was_clean: bool  # nobody writes, and whoever did has stopped in order


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue."""

    topic: str
    queue_id: int
    path: Path
    first_offset: int
    size: int

    @property
    def weight(self) -> int:
        return self.size


AuditPart: TypeAlias = LogPart | QueueFile | IndexPart


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of one queue: a row for each of queue offset, log offset, size and tags code."""

    topic: str
    queue_id: int
    values: _Numbers


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of the index: a row for each of key hash and log offset."""

    place: str
    values: _Numbers


@dataclass(frozen=True, slots=True)
class Found:
    """Something that is wrong, whatever the other side says."""

    part: str
    place: str
    what: str
    log_offset: int | None = None
    end: int | None = None  # of a stretch of the log
    topic: str | None = None
    queue_id: int | None = None
    offset: int | None = None
    count: int = 1
    is_damage: bool = True


@dataclass(frozen=True, slots=True)
class Read:
    """So much was read: records of a topic in a log file, cells of a queue's file, entries of an index file."""

    part: str
    place: str
    topic: str | None
    rows: int
    size: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """From where to where a file leads into the log: queue offsets, and the log offset that counts for its kind.

    Of a queue that is the first one, of the index the last.
    """

    part: str
    topic: str | None
    queue_id: int | None
    first: int | None
    last: int | None
    log_offset: int


Item: TypeAlias = Cells | Entries | Found | Read | Seen


def read_part(part: AuditPart, rules: Rules) -> Iterator[Item]:
    if isinstance(part, LogPart):
        return _of_log(part, rules)
    return _of_queue(part, rules) if isinstance(part, QueueFile) else _of_index(part, rules)


# ----------------------------------------------------------------------------------------------------------------- log


def _of_log(part: LogPart, rules: Rules) -> Iterator[Item]:
    places = RecordPlaces(rules.config)
    cells: dict[tuple[str, int], list[tuple[int, int, int, int]]] = {}
    entries: list[tuple[int, int]] = []
    read: dict[str, list[int]] = {}
    name = part.path.name
    with closing(FewFiles([(part.file_start, part.path)], part.file_bytes)) as files:
        scan = LogScan(files, part.start, check_crc=True, trusted_end=part.end, stop=part.end)
        for number, record in enumerate(scan.records(), start=1):
            log_offset = record.log_offset
            belongs = places.of(record)
            topic = record.topic.decode("utf-8", "replace")
            seen = read.setdefault(topic, [0, 0])
            seen[0] += 1
            seen[1] += record.total_bytes
            if belongs is not None:
                if belongs.cell is not None:
                    _, size, tags_code = belongs.cell
                    place = (record.queue_offset, log_offset, size, tags_code)
                    cells.setdefault((topic, record.queue_id), []).append(place)
                entries += [(key_hash, log_offset) for key_hash in belongs.key_hashes]
            if number % CHUNK == 0:
                yield from _flushed(cells, entries, name)
        yield from _flushed(cells, entries, name)
        for topic, (rows, size) in read.items():
            yield Read("log", name, topic, rows, size)
        for begin, end in scan.bad:
            yield _bad_stretch(files, part, begin, end)
        if scan.end < part.end and not scan.bad:
            yield Found("log", name, "the file ends before its records do", scan.end, part.end)
    for topic, why in places.illegal.items():
        yield Found("log", name, f"an illegal topic, its messages are in no queue: {why}", topic=topic)


def _flushed(
    cells: dict[tuple[str, int], list[tuple[int, int, int, int]]], entries: list[tuple[int, int]], name: str
) -> Iterator[Item]:
    for (topic, queue_id), rows in cells.items():
        yield Cells(topic, queue_id, np.array(rows, np.int64))
    cells.clear()
    if entries:
        yield Entries(name, np.array(entries, np.int64))
        entries.clear()


def _bad_stretch(files: FewFiles, part: LogPart, begin: int, end: int) -> Found:
    """Why there is no good record: the first one there may be whole but for its body."""
    data = files.read_log(begin, min(end, part.file_start + part.file_bytes) - begin)
    name, text = part.path.name, f"{end - begin} bytes hold no good record: what was there is lost"
    try:
        record = scan_record(data, 0, len(data), check_crc=False)
    except ProtocolError as error:
        return Found("log", name, f"{text} ({_reason(data, error)})", begin, end)
    if record is None:
        return Found("log", name, text, begin, end)
    if record.log_offset != begin:
        what = f"{text} (a record stands here that says it belongs to {record.log_offset})"
        return Found("log", name, what, begin, end)
    what = "the body has another checksum than the record says"
    topic = record.topic.decode("utf-8", "replace")
    return Found("log", name, what, begin, end, topic, record.queue_id, record.queue_offset)


def _reason(data: bytes, error: ProtocolError) -> str:
    if len(data) >= BLANK_BYTES:
        total, magic = sizes_at(data)
        if magic == BLANK_MAGIC:
            return f"the blank record at the file's end announces {total} bytes"
    return str(error).replace(" at 0", "")


# -------------------------------------------------------------------------------------------------------------- queues


def _of_queue(part: QueueFile, rules: Rules) -> Iterator[Item]:
    """Cells that lead into the log. Those in front of it have expired, those behind it may have come since the plan."""
    place = f"consumequeue/{part.topic}/{part.queue_id}/{part.path.name}"
    behind: list[int] = []  # offsets of cells that lead behind the end, so far
    rows, first, last, first_log_offset = 0, -1, -1, -1
    with closing(FewFiles((), 1)) as files:
        for at in range(0, part.size // CELL_BYTES, CHUNK):
            count = min(CHUNK, part.size // CELL_BYTES - at)
            data = files.read(part.path, at * CELL_BYTES, count * CELL_BYTES)
            cells = np.frombuffer(data, CELLS, len(data) // CELL_BYTES)
            values = np.empty((len(cells), 4), np.int64)
            values[:, 0] = np.arange(part.first_offset + at, part.first_offset + at + len(cells))
            values[:, 1], values[:, 2] = cells["log_offset"], cells["size"]
            values[:, 3] = cells["tags_code"]
            values = values[(values[:, 2] > 0) & (values[:, 2] != FILLER_SIZE)]
            is_in = (values[:, 1] >= rules.log_begin) & (values[:, 1] < rules.log_end)
            behind += values[values[:, 1] >= rules.log_end, 0].tolist()[:CHUNK]
            values = values[is_in]
            if len(values):
                if first < 0:
                    first, first_log_offset = int(values[0, 0]), int(values[0, 1])
                last = int(values[-1, 0])
                rows += len(values)
                yield Cells(part.topic, part.queue_id, values)
    yield Read("queue", place, part.topic, rows, rows * CELL_BYTES)
    if rows:
        yield Seen("queue", part.topic, part.queue_id, first, last, first_log_offset)
    # A broker at work goes on while we read; but it does not go back.
    wrong = [offset for offset in behind if rules.was_clean or offset < last]
    if wrong:
        what = "places lead behind the end of the log"
        yield Found("queue", place, what, topic=part.topic, queue_id=part.queue_id, offset=wrong[0], count=len(wrong))


# --------------------------------------------------------------------------------------------------------------- index


def _of_index(part: IndexPart, rules: Rules) -> Iterator[Item]:
    """Entries that lead into the log, and whether each knows the one before it in its slot."""
    place = f"index/{part.path.name}"
    entries_at = INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * part.slot_count
    newest = np.zeros(part.slot_count, np.int32)
    rows = broken_count = first_broken = 0
    end = -1
    with closing(FewFiles((), 1)) as files:
        for number in range(part.start, part.end, CHUNK):
            count = min(CHUNK, part.end - number)
            data = files.read(part.path, entries_at + number * INDEX_ENTRY_BYTES, count * INDEX_ENTRY_BYTES)
            entries = np.frombuffer(data, _ENTRIES, len(data) // INDEX_ENTRY_BYTES)
            # A broker at work counts an entry before it is on its way to the file; nothing but zeros is there then.
            is_there = (entries["key_hash"] != 0) | (entries["log_offset"] != 0) | (entries["previous"] != 0)
            numbers = np.arange(number, number + len(entries), dtype=np.int32)[is_there]
            entries = entries[is_there]
            broken = _unlinked(entries, numbers, newest, part.slot_count)
            if len(broken):
                first_broken = first_broken or int(broken[0])
                broken_count += len(broken)
            offsets = entries["log_offset"].astype(np.int64)
            is_in = (offsets >= rules.log_begin) & (offsets < rules.log_end)
            values = np.stack([entries["key_hash"].astype(np.int64), offsets], axis=1)[is_in]
            rows += len(values)
            if len(values):
                end = max(end, int(values[:, 1].max()))
                yield Entries(place, values)
            behind = offsets >= rules.log_end
            if rules.was_clean and behind.any():
                what = "entries lead behind the end of the log"
                yield Found("index", place, what, int(offsets[behind][0]), count=int(behind.sum()))
        slots = np.frombuffer(files.read(part.path, INDEX_HEADER_BYTES, INDEX_SLOT_BYTES * part.slot_count), ">i4")
    yield Read("index", place, None, rows, rows * INDEX_ENTRY_BYTES)
    if rows:
        yield Seen("index", None, None, None, None, end)
    if broken_count:
        what = (
            f"entries from number {first_broken} on are not linked to those before them: a search would miss messages"
        )
        yield Found("index", place, what, count=broken_count)
    elif rules.was_clean and (wrong := int((slots != newest).sum())):
        what = "slots do not lead to their newest entries: a search would miss messages"
        yield Found("index", place, what, count=wrong)


def _unlinked(
    entries: NDArray[np.void], numbers: NDArray[np.int32], newest: NDArray[np.int32], slot_count: int
) -> NDArray[np.int32]:
    """The entries whose `previous` is not the one before them in their slot; `newest` is kept for the next ones."""
    slots = entries["key_hash"].astype(np.int64) % slot_count
    order = np.argsort(slots, kind="stable")
    sorted_slots, sorted_numbers = slots[order], numbers[order]
    expected = np.empty(len(order), np.int32)
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = sorted_slots[1:] != sorted_slots[:-1]
    expected[is_first] = newest[sorted_slots[is_first]]
    after = np.flatnonzero(~is_first)
    expected[after] = sorted_numbers[after - 1]
    newest[sorted_slots] = sorted_numbers  # of several in a slot the last one stays
    is_wrong = entries["previous"][order] != expected
    return np.sort(sorted_numbers[is_wrong])
