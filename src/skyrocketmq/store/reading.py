"""Reading a queue: what a pull gets.

A hot module: one call a pull, a few steps a message.

Rule 1: records that lie together in the log leave as one slice of it; scattered ones are joined into one piece of
bytes, because many small writes to a socket cost more than one copy.
Rule 2: sizes and counts are limited, more tightly for messages that are far behind the newest, since those come from
the disk and push others out of memory. The first message is given whatever its size.
Rule 3: a message whose log file is gone is stepped over, together with all others of that file.
Rule 4: what an earlier process wrote is looked at before it is given away; see `intact`.
Rule 5: everything is decided on what is in memory; records and cells that are not are fetched by whoever runs the
`Steps` (see `cold_reads`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from typing import Final, TypeAlias

from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE, ConsumeQueue
from skyrocketmq.store.intact import are_intact, intact_parts, is_intact
from skyrocketmq.store.queue_extension import EXT_ADDRESS_MAX, ExtensionUnit
from skyrocketmq.store.statuses import GetStatus

__all__ = ["Buffer", "GetResult", "ReadLimits", "read_queue", "read_record", "read_resident"]

SCAN_CELLS_MIN: Final = 800  # looked at for one pull, however few messages are asked for
SCAN_CELLS_MAX: Final = 2_000  # and however many: what one consumer asks for, the others wait for
PARTS_MAX: Final = 4  # more runs than this are joined
COLD_BLOCK_BYTES: Final = 64 * 1024  # fetched at once where every record has to be looked at

Buffer: TypeAlias = bytes | memoryview
_cells = CELL.iter_unpack


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much one read gives, in memory and on disk, and where the one ends and the other begins."""

    bytes_max: int
    count_max: int
    disk_bytes_max: int
    disk_count_max: int
    memory_bytes: int  # messages further behind the end of the log than this are taken to be on disk


@dataclass(slots=True)  # not frozen: one is made for every pull, and freezing doubles its cost
class GetResult:
    """What a read found. `parts` together are whole records, one after the other, as the protocol sends them."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    parts: Sequence[Buffer] = ()
    byte_count: int = 0
    count: int = 0
    is_far_behind: bool = False  # the messages come from disk: a slave might serve them better
    behind_bytes: int = 0  # how far the last message looked at is behind the end of the log

    def joined(self) -> bytes:
        """All records in one piece."""
        return b"".join(self.parts)


def read_queue(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    count_max: int,
    *,
    limits: ReadLimits,
    tag_codes: AbstractSet[int] | None = None,
    matches: Callable[[Buffer], bool] | None = None,
    scan_max: int = SCAN_CELLS_MAX,
    find_unit: Callable[[int], ExtensionUnit | None] | None = None,
    may_match: Callable[[ExtensionUnit], bool] | None = None,
) -> Steps[GetResult]:
    """Messages of a queue from `offset` on, at most `count_max`.

    `tag_codes`: only messages whose tags have one of these hashes. `matches`: only those whose record it accepts; no
    more than `scan_max` are looked at. Where a cell holds the address of a unit, `find_unit` finds it, its tags code
    counts, and `may_match` is asked first.
    """
    min_offset, max_offset = int(queue.min_offset), int(queue.max_offset)
    if max_offset == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, min_offset, max_offset)
    if offset < min_offset:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, min_offset, min_offset, max_offset)
    if offset == max_offset:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, min_offset, max_offset)
    if offset > max_offset:
        return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, max_offset, min_offset, max_offset)
    is_filtered = tag_codes is not None or matches is not None
    scan_min = SCAN_CELLS_MIN if is_filtered else 1
    scan_count = min(max(scan_min, count_max), max(SCAN_CELLS_MAX, limits.count_max))
    cells = queue.peek_cells(offset, scan_count if matches is None else min(scan_count, scan_max))
    if isinstance(cells, ColdRange):
        (cells,) = yield [cells]
        cells = cells[: len(cells) - len(cells) % CELL_BYTES]
    if not cells:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset), min_offset, max_offset)
    log_min, log_max = int(log.min_offset), int(log.max_offset)
    disk_end = log_max - limits.memory_bytes  # messages before this are taken to be on disk
    status = GetStatus.NO_MATCHED_MESSAGE
    runs: list[list[int]] = []  # [begin, end] of what lies together in the log
    places: list[tuple[int, int]] = []
    run_end = -1
    skip_until = 0
    taken = taken_bytes = looked_at = 0
    position = log_max
    block = _Block(log)
    for position, size, tags_code in _cells(cells):
        if position < skip_until or size == FILLER_SIZE:
            looked_at += 1
            continue
        if taken and (
            taken >= count_max
            or (
                taken >= limits.disk_count_max or taken_bytes + size > limits.disk_bytes_max
                if position < disk_end
                else taken >= limits.count_max or taken_bytes + size > limits.bytes_max
            )
        ):
            break
        looked_at += 1
        if tags_code <= EXT_ADDRESS_MAX and find_unit is not None and is_filtered:
            unit = find_unit(tags_code)
            if unit is not None:
                tags_code = unit.tags_code
                if may_match is not None and not may_match(unit):
                    continue
        if tag_codes is not None and tags_code not in tag_codes and not _may_match(tags_code, tag_codes):
            continue
        if position < log_min or not log.has(position, size):
            if not taken:
                status = GetStatus.MESSAGE_WAS_REMOVING
            skip_until = log.next_file_start(position)
            continue
        if matches is not None:
            record = log.peek(position, size)
            if record is None:
                record = yield from block.record(position, size)
            if position < log.own_from and not is_intact(record, 0, size, position):
                log.bad_records.note(position, size)
                continue
            if not matches(record):
                continue
        if position == run_end and position % log.file_bytes:
            runs[-1][1] = run_end = position + size
        else:
            run_end = position + size
            runs.append([position, run_end])
        places.append((position, size))
        taken += 1
        taken_bytes += size
        status = GetStatus.FOUND
        skip_until = 0
    parts = yield from _fetch(log, runs)
    if places and places[0][0] < log.own_from:
        parts, taken, taken_bytes = intact_parts(parts, places, log.bad_records)
        if not taken:
            status = GetStatus.NO_MATCHED_MESSAGE
    behind = log_max - position
    return GetResult(
        status,
        offset + looked_at,
        min_offset,
        max_offset,
        parts,
        taken_bytes,
        taken,
        behind > limits.memory_bytes,
        behind,
    )


def read_resident(
    log: CommitLog, queue: ConsumeQueue, offset: int, count_max: int, *, limits: ReadLimits
) -> GetResult | None:
    """The common read: no filter, and all messages in memory and in one file. None if it is not that.

    Works on columns instead of message by message: a fifth of the time.
    """
    min_offset, max_offset = queue.min_offset, queue.max_offset
    if not min_offset <= offset < max_offset:
        return None
    cells = queue.peek_cells(offset, max(min(count_max, limits.count_max), 1))
    if not cells or isinstance(cells, ColdRange):
        return None
    taken = len(cells) // CELL_BYTES
    fields = _unpacker(taken)(cells)
    positions, sizes = fields[0::3], fields[1::3]
    taken_bytes = sum(sizes)
    if taken_bytes > limits.bytes_max:
        if max(sizes) == FILLER_SIZE:
            return None
        sums = list(accumulate(sizes))
        taken = max(bisect_right(sums, limits.bytes_max), 1)
        positions, sizes, taken_bytes = positions[:taken], sizes[:taken], sums[taken - 1]
    first, last = positions[0], positions[-1]
    end, log_max = last + sizes[-1], log.max_offset
    view = log.warm_view(first, end)
    if view is None or first < log_max - limits.memory_bytes:
        return None
    begin = first - first % log.file_bytes
    part: Buffer
    if end - first == taken_bytes and tuple(accumulate(sizes[:-1], initial=first)) == positions:
        part = view[first - begin : end - begin]
    else:
        part = b"".join([view[at - begin : at - begin + size] for at, size in zip(positions, sizes, strict=True)])
        if len(part) != taken_bytes:
            return None
    if first < log.own_from and not are_intact(part, positions, sizes):
        return None  # the careful way finds out which of them
    return GetResult(
        GetStatus.FOUND, offset + taken, min_offset, max_offset, (part,), taken_bytes, taken, False, log_max - last
    )


@lru_cache(maxsize=1024)
def _unpacker(count: int) -> Callable[[bytes], tuple[int, ...]]:
    """Reads so many cells at once, as numbers one after the other."""
    return Struct(">" + "qiq" * count).unpack


def read_record(log: CommitLog, position: int, size: int) -> Steps[Buffer | None]:
    """Bytes of the log; None if they are not kept."""
    if position < log.min_offset or not log.has(position, size):
        return None
    data = log.peek(position, size)
    if data is None:
        (data,) = yield [log.cold_range(position, size)]
    return data


def _may_match(tags_code: int, tag_codes: AbstractSet[int]) -> bool:
    """Codes that are no plain hash: an extension file's address passes, of a time only the low 32 bits are compared."""
    if tags_code <= EXT_ADDRESS_MAX:
        return True
    low = tags_code & 0xFFFFFFFF
    return (low - 0x1_0000_0000 if low & 0x8000_0000 else low) in tag_codes


def _fetch(log: CommitLog, runs: list[list[int]]) -> Steps[Sequence[Buffer]]:
    """The runs as few pieces; all that is cold is fetched at once."""
    parts: list[Buffer | None] = [log.peek(begin, end - begin) for begin, end in runs]
    missing = [number for number, part in enumerate(parts) if part is None]
    if missing:
        fetched = yield [log.cold_range(runs[number][0], runs[number][1] - runs[number][0]) for number in missing]
        for number, data in zip(missing, fetched, strict=True):
            parts[number] = data
    there = [part for part in parts if part is not None]
    return there if len(there) <= PARTS_MAX else [b"".join(there)]


class _Block:
    """Records one after the other, where each must be looked at; cold ones come in blocks."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._begin = 0
        self._data = b""

    def record(self, position: int, size: int) -> Steps[Buffer]:
        """A record that is not in memory."""
        at = position - self._begin
        if not 0 <= at <= len(self._data) - size:
            log = self._log
            file_end = log.next_file_start(position)
            length = min(max(size, COLD_BLOCK_BYTES), file_end - position, int(log.max_offset) - position)
            (self._data,) = yield [log.cold_range(position, length)]
            self._begin, at = position, 0
        return self._data[at : at + size]
