"""Reading a queue: what a pull gets. Which messages that is, `hot.cells` finds out.

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

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

from skyrocketmq.hot import CellLimits, CellScan, TagCodes
from skyrocketmq.hot.layout import CELL_BYTES
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, FILLER_SIZE, ConsumeQueue
from skyrocketmq.store.intact import are_intact, intact_parts, is_intact
from skyrocketmq.store.look_turn import LookTurn
from skyrocketmq.store.queue_extension import EXT_ADDRESS_MAX, ExtensionUnit
from skyrocketmq.store.statuses import GetStatus

__all__ = ["Buffer", "GetResult", "read_queue", "read_record", "read_resident"]

SCAN_CELLS_MIN: Final = 800  # looked at for one pull, however few messages are asked for
SCAN_CELLS_MAX: Final = 2_000  # and however many: what one consumer asks for, the others wait for
ASK_EVERY: Final = 8  # messages that are looked into, one may take a millisecond: whether the time is over
PARTS_MAX: Final = 4  # more runs than this are joined
COLD_BLOCK_BYTES: Final = 64 * 1024  # fetched at once where every record has to be looked at

Buffer: TypeAlias = bytes | memoryview
_cells = CELL.iter_unpack


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
    limits: CellLimits,
    tag_codes: AbstractSet[int] | None = None,
    matches: Callable[[Buffer], bool] | None = None,
    scan_max: int = SCAN_CELLS_MAX,
    turn: LookTurn | None = None,
    find_unit: Callable[[int], ExtensionUnit | None] | None = None,
    may_match: Callable[[ExtensionUnit], bool] | None = None,
) -> Steps[GetResult]:
    """Messages of a queue from `offset` on, at most `count_max`.

    `tag_codes`: only messages whose tags have one of these hashes. `matches`: only those whose record it accepts; no
    more than `scan_max` are looked at, and none when the turn is over. Where a cell holds the address of a unit,
    `find_unit` finds it, its tags code counts, and `may_match` is asked first.
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
    scan_count = _scan_count(count_max, limits, is_filtered=tag_codes is not None or matches is not None)
    cells = queue.peek_cells(offset, scan_count if matches is None else min(scan_count, scan_max))
    if isinstance(cells, ColdRange):
        (cells,) = yield [cells]
        cells = cells[: len(cells) - len(cells) % CELL_BYTES]
    if not cells:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset), min_offset, max_offset)
    if matches is None:
        scan = _scan(log, cells, count_max, limits, tag_codes, find_unit, may_match)
        found = _Found.of(scan)
    else:
        found = yield from _examine(log, cells, count_max, limits, tag_codes, matches, turn, find_unit, may_match)
    status, taken, taken_bytes = found.status, found.taken, found.taken_bytes
    parts = yield from _fetch(log, found.runs)
    if found.places and found.places[0][0] < log.own_from:
        parts, taken, taken_bytes = intact_parts(parts, found.places, log.bad_records)
        if not taken:
            status = GetStatus.NO_MATCHED_MESSAGE
    behind = int(log.max_offset) - found.position
    return GetResult(
        status,
        offset + found.looked_at,
        min_offset,
        max_offset,
        parts,
        taken_bytes,
        taken,
        behind > limits.memory_bytes,
        behind,
    )


def read_resident(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    count_max: int,
    *,
    limits: CellLimits,
    tag_codes: AbstractSet[int] | None = None,
    find_unit: Callable[[int], ExtensionUnit | None] | None = None,
) -> GetResult | None:
    """The common read: it finds messages, all of them in memory and in one file. None if it is not that."""
    min_offset, max_offset = queue.min_offset, queue.max_offset
    if not min_offset <= offset < max_offset:
        return None
    cells = queue.peek_cells(offset, _scan_count(count_max, limits, is_filtered=tag_codes is not None))
    if not cells or isinstance(cells, ColdRange):
        return None
    scan = _scan(log, cells, count_max, limits, tag_codes, find_unit, None)
    runs = scan.runs
    if not runs:
        return None
    first, last_end = runs[0][0], runs[-1][1]
    view = log.warm_view(first, last_end)
    if view is None:
        return None
    begin = first - first % log.file_bytes
    part: Buffer | None = view[first - begin : last_end - begin] if len(runs) == 1 else scan.gather(view, begin)
    if part is None or (scan.places and not are_intact(part, scan.places)):
        return None  # the careful way finds out which of them
    behind = log.max_offset - scan.position
    return GetResult(
        GetStatus.FOUND,
        offset + scan.looked_at,
        min_offset,
        max_offset,
        (part,),
        scan.taken_bytes,
        scan.taken,
        behind > limits.memory_bytes,
        behind,
    )


def _scan_count(count_max: int, limits: CellLimits, *, is_filtered: bool) -> int:
    """How many cells to look at."""
    return min(max(SCAN_CELLS_MIN if is_filtered else 1, count_max), max(SCAN_CELLS_MAX, limits.count_max))


def _scan(
    log: CommitLog,
    cells: bytes,
    count_max: int,
    limits: CellLimits,
    tag_codes: AbstractSet[int] | None,
    find_unit: Callable[[int], ExtensionUnit | None] | None,
    may_match: Callable[[ExtensionUnit], bool] | None,
) -> CellScan:
    """Go through the cells; units of the extension are looked up where tags are asked for."""
    scan = CellScan(
        limits,
        count_max,
        log_begin=int(log.min_offset),
        log_end=int(log.max_offset),
        own_from=log.own_from,
        files=log.by_start,
        tags=None if tag_codes is None else TagCodes(tag_codes),
        stops_at_units=find_unit is not None and tag_codes is not None,
    )
    at = scan.scan(cells)
    while at < len(cells) and not scan.is_full:
        assert find_unit is not None, "a scan stops before its end at a unit, or when it is full"
        address = CELL.unpack_from(cells, at)[2]
        unit = find_unit(address)
        if unit is not None and may_match is not None and not may_match(unit):
            scan.pass_by()
            at = scan.scan(cells, at + CELL_BYTES)
        else:
            at = scan.scan(cells, at, address if unit is None else unit.tags_code)
    return scan


@dataclass(slots=True)
class _Found:
    """What a read takes: [begin, end) of the log that lie together, and the (log offset, size) of each message."""

    status: GetStatus
    runs: Sequence[Sequence[int]]
    places: Sequence[tuple[int, int]]
    taken: int
    taken_bytes: int
    looked_at: int
    position: int  # of the last message looked at

    @classmethod
    def of(cls, scan: CellScan) -> _Found:
        if scan.taken:
            status = GetStatus.FOUND
        else:
            status = GetStatus.MESSAGE_WAS_REMOVING if scan.has_removed else GetStatus.NO_MATCHED_MESSAGE
        return cls(status, scan.runs, scan.places, scan.taken, scan.taken_bytes, scan.looked_at, scan.position)


def _examine(
    log: CommitLog,
    cells: bytes,
    count_max: int,
    limits: CellLimits,
    tag_codes: AbstractSet[int] | None,
    matches: Callable[[Buffer], bool],
    turn: LookTurn | None,
    find_unit: Callable[[int], ExtensionUnit | None] | None,
    may_match: Callable[[ExtensionUnit], bool] | None,
) -> Steps[_Found]:
    """The same where each record is looked into, one by one."""
    log_min, log_max = int(log.min_offset), int(log.max_offset)
    disk_end = log_max - limits.memory_bytes  # messages before this are taken to be on disk
    status = GetStatus.NO_MATCHED_MESSAGE
    runs: list[list[int]] = []
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
        if turn is not None and looked_at % ASK_EVERY == ASK_EVERY - 1 and turn.is_over():
            break
        looked_at += 1
        if tags_code <= EXT_ADDRESS_MAX and find_unit is not None:
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
        record = log.peek(position, size)
        if record is None:
            record = yield from block.record(position, size)
            if turn is not None:
                turn.begin()
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
    return _Found(status, runs, places, taken, taken_bytes, looked_at, position)


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


def _fetch(log: CommitLog, runs: Sequence[Sequence[int]]) -> Steps[Sequence[Buffer]]:
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
