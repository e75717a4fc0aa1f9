"""Reading a queue: what a pull gets. Which messages that is, `hot.cells` finds out.

Rule 1: records that lie together in the log leave as one slice of it; scattered ones are joined into one piece of
bytes, because many small writes to a socket cost more than one copy.
Rule 2: sizes and counts are limited, more tightly for messages that are far behind the newest, since those come from
the disk and push others out of memory. The first message is given whatever its size.
Rule 3: a message whose log file is gone is stepped over, together with all others of that file.
Rule 4: what an earlier process wrote is looked at before it is given away; see `intact`.
Rule 5: there is one way for memory and disk. Everything is decided on what is in memory; records and cells that are not
are fetched by whoever runs the `Steps` (see `cold_reads`).
Rule 6: where a filter looks into messages, it is asked about a block of them at a time, and the reading ends with its
turn: what one consumer asks for, all others wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from skyrocketmq.hot import CellLimits, CellScan, TagCodes
from skyrocketmq.hot.layout import CELL_BYTES, CELL_UNIT_ADDRESS_MAX
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, ConsumeQueue
from skyrocketmq.store.intact import intact_parts
from skyrocketmq.store.look_turn import LookTurn
from skyrocketmq.store.queue_extension import ExtensionUnit
from skyrocketmq.store.statuses import GetStatus

__all__ = ["Buffer", "FindUnit", "GetResult", "RecordFilter", "read_queue", "read_record"]

SCAN_CELLS_MIN: Final = 800  # looked at for one pull, however few messages are asked for
SCAN_CELLS_MAX: Final = 2_000  # and however many: what one consumer asks for, the others wait for
BLOCK_CELLS_MIN: Final = 8  # messages that a filter is asked about in one go
BLOCKS_A_SCAN: Final = 8  # a costly filter, which may look at few messages, is asked about fewer in one go
BLOCK_BYTES_MAX: Final = 262_144  # of the log, for one block
PARTS_MAX: Final = 4  # more runs than this are joined
COLD_BLOCK_BYTES: Final = 64 * 1024  # fetched at once where every record has to be looked at

Buffer: TypeAlias = bytes | memoryview
FindUnit: TypeAlias = Callable[[int], ExtensionUnit | None]


class RecordFilter(Protocol):
    """Looks into messages, to say which of them a reader wants."""

    @property
    def scan_max(self) -> int:
        """How many messages one read may look at."""

    def may_match(self, unit: ExtensionUnit) -> bool:
        """Whether a message may be wanted, by what its unit in the queue's extension says."""

    def select(self, view: Buffer, base: int, cells: bytes) -> bytes:
        """A byte for each record that the cells point at, 0 where it is not wanted.

        The view begins at log offset `base`. The answer ends with the last record before the first outside the view.
        """


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
    behind_bytes: int = 0  # from the last message looked at to the end of the log

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
    tags: TagCodes | None = None,
    filter: RecordFilter | None = None,
    turn: LookTurn | None = None,
    find_unit: FindUnit | None = None,
) -> Steps[GetResult]:
    """Messages of a queue from `offset` on, at most `count_max`.

    `tags`: only messages whose tags have one of these hashes. `filter`: only those that it wants. Where a cell holds
    the address of a unit, `find_unit` finds it and its tags code counts.
    """
    min_offset, max_offset = queue.min_offset, queue.max_offset
    if not min_offset <= offset < max_offset:
        return _nothing_there(offset, min_offset, max_offset)
    cells = queue.peek_cells(offset, _scan_count(count_max, limits, tags, filter))
    if isinstance(cells, ColdRange):
        (cells,) = yield [cells]
        cells = cells[: len(cells) - len(cells) % CELL_BYTES]
    if not cells:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset), min_offset, max_offset)
    scan = CellScan(
        limits,
        count_max,
        log_begin=log.min_offset,
        log_end=log.max_offset,
        own_from=log.own_from,
        files=log.by_start,
        tags=tags,
        stops_at_units=find_unit is not None and tags is not None,
    )
    if filter is None:
        _scan(scan, cells, find_unit)
    else:
        yield from _examine(log, scan, cells, min(count_max, limits.count_max), filter, turn, find_unit)
    taken, taken_bytes = scan.taken, scan.taken_bytes
    parts: Sequence[Buffer] = ()
    if taken:
        parts = _peek(log, scan) or (yield from _fetch(log, scan))
        if scan.places:
            parts, taken, taken_bytes = intact_parts(parts, scan.places, log.bad_records)
    if taken:
        status = GetStatus.FOUND
    else:
        status = GetStatus.MESSAGE_WAS_REMOVING if scan.has_removed else GetStatus.NO_MATCHED_MESSAGE
    behind = log.max_offset - scan.position
    return GetResult(
        status,
        offset + scan.looked_at,
        min_offset,
        max_offset,
        parts,
        taken_bytes,
        taken,
        behind > limits.memory_bytes,
        behind,
    )


def _nothing_there(offset: int, min_offset: int, max_offset: int) -> GetResult:
    if max_offset == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, min_offset, max_offset)
    if offset < min_offset:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, min_offset, min_offset, max_offset)
    if offset == max_offset:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, min_offset, max_offset)
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, max_offset, min_offset, max_offset)


def _scan_count(count_max: int, limits: CellLimits, tags: TagCodes | None, filter: RecordFilter | None) -> int:
    """How many cells to look at."""
    if tags is None and filter is None:
        return count_max if 0 < count_max <= SCAN_CELLS_MAX else max(1, min(count_max, limits.count_max))
    count = min(max(SCAN_CELLS_MIN, count_max), max(SCAN_CELLS_MAX, limits.count_max))
    return count if filter is None else min(count, filter.scan_max)


def _scan(scan: CellScan, cells: bytes, find_unit: FindUnit | None, wanted: bytes | None = None) -> None:
    """Go through the cells; units of the extension are looked up where tags are asked for."""
    at = scan.scan(cells, 0, None, wanted)
    while at < len(cells) and not scan.is_full:
        assert find_unit is not None, "a scan stops before its end at a unit, or when it is full"
        address = CELL.unpack_from(cells, at)[2]
        unit = find_unit(address)
        at = scan.scan(cells, at, address if unit is None else unit.tags_code, wanted)


def _examine(
    log: CommitLog,
    scan: CellScan,
    cells: bytes,
    count_max: int,
    filter: RecordFilter,
    turn: LookTurn | None,
    find_unit: FindUnit | None,
) -> Steps[None]:
    """The same where records are looked into: block by block, as many messages as are still wanted in each."""
    at = 0
    data: Buffer = b""
    begin = 0
    while at < len(cells) and not scan.is_full and not 0 < count_max <= scan.taken:
        if at and turn is not None and turn.is_over():
            break
        count = count_max - scan.taken
        if at:  # as many as it takes if the others match as often as those before
            count = count * scan.looked_at // max(1, scan.taken)
        count = max(BLOCK_CELLS_MIN, min(count, filter.scan_max // BLOCKS_A_SCAN))
        block = cells[at : at + count * CELL_BYTES]
        position, size, _ = CELL.unpack_from(block)
        wanted = b"\x01"  # what the log does not have, the scan steps over
        if position >= log.min_offset and log.has(position, size):
            if not begin <= position <= begin + len(data) - size:
                begin, (data, was_cold) = position, (yield from _window(log, block))
                if was_cold and turn is not None:
                    turn.begin()
            wanted = _wanted(filter, data, begin, block, find_unit) or wanted
        block = block[: len(wanted) * CELL_BYTES]
        _scan(scan, block, find_unit, wanted)
        at += len(block)


def _window(log: CommitLog, cells: bytes) -> Steps[tuple[Buffer, bool]]:
    """The log from the first of these records on, which it has, as far as they go; and whether it had to be fetched."""
    begin, size, _ = CELL.unpack_from(cells)
    last, last_size, _ = CELL.unpack_from(cells, len(cells) - CELL_BYTES)
    end_max = min(log.next_file_start(begin), log.max_offset)
    end = min(max(begin + size, min(last + last_size, begin + BLOCK_BYTES_MAX)), end_max)
    view = log.warm_view(begin, end)
    if view is not None:
        file_begin = begin - begin % log.file_bytes
        return view[begin - file_begin : end - file_begin], False
    (data,) = yield [log.cold_range(begin, min(max(size, COLD_BLOCK_BYTES), end_max - begin))]
    return data, True


def _wanted(filter: RecordFilter, view: Buffer, base: int, cells: bytes, find_unit: FindUnit | None) -> bytes:
    """A byte for each cell whose record lies in the view; records whose units rule them out are not looked into."""
    if find_unit is None:
        return filter.select(view, base, cells)
    wanted = bytearray()
    for at in range(0, len(cells), CELL_BYTES):
        address = CELL.unpack_from(cells, at)[2]
        unit = find_unit(address) if address <= CELL_UNIT_ADDRESS_MAX else None
        if unit is not None and not filter.may_match(unit):
            wanted.append(0)
            continue
        verdict = filter.select(view, base, cells[at : at + CELL_BYTES])
        if not verdict:
            break
        wanted += verdict
    return bytes(wanted)


def _peek(log: CommitLog, scan: CellScan) -> Sequence[Buffer] | None:
    """What was taken, if all of it is in memory and in one file."""
    first, end = scan.begin, scan.end
    view = log.warm_view(first, end)
    if view is None:
        return None
    base = first - first % log.file_bytes
    part = view[first - base : end - base] if scan.run_count == 1 else scan.gather(view, base)
    return None if part is None else (part,)


def _fetch(log: CommitLog, scan: CellScan) -> Steps[Sequence[Buffer]]:
    """The same wherever it is, as few pieces; all that is cold is fetched at once."""
    runs = scan.runs
    parts: list[Buffer | None] = [log.peek(begin, end - begin) for begin, end in runs]
    missing = [number for number, part in enumerate(parts) if part is None]
    if missing:
        fetched = yield [log.cold_range(runs[number][0], runs[number][1] - runs[number][0]) for number in missing]
        for number, data in zip(missing, fetched, strict=True):
            parts[number] = data
    there = [part for part in parts if part is not None]
    return there if len(there) <= PARTS_MAX else [b"".join(there)]


def read_record(log: CommitLog, position: int, size: int) -> Steps[Buffer | None]:
    """Bytes of the log; None if they are not kept."""
    if position < log.min_offset or not log.has(position, size):
        return None
    data = log.peek(position, size)
    if data is None:
        (data,) = yield [log.cold_range(position, size)]
    return data
