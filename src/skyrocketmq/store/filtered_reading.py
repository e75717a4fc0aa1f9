"""Reading a queue for a consumer that takes only some of its messages, where they are in memory.

A hot module: one call a pull, and one or two calls of the filter, each for all records that it comes across.

Rule 1: this is the common case of `reading.read_queue` with a filter, and gives the same messages. What is not common
(records on the disk, damaged ones, the end of a log file) is left to that: None.
Rule 2: as there, one pull looks at some hundred messages if few of them match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from skyrocketmq.filters import RecordScan
from skyrocketmq.hot import CellLimits
from skyrocketmq.store.cold_reads import ColdRange
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, ConsumeQueue
from skyrocketmq.store.intact import is_intact
from skyrocketmq.store.look_turn import LookTurn
from skyrocketmq.store.reading import SCAN_CELLS_MIN, Buffer, GetResult
from skyrocketmq.store.statuses import GetStatus
from skyrocketmq.wire.records import RECORD_BYTES_MIN

__all__ = ["read_filtered"]

LOOK_BYTES_MAX: Final = 262_144  # of the log: looking into so much takes 25 ms at worst, mostly less than one
FIRST_LOOK: Final = 4  # times what is asked for: further cells are read only if these do not suffice
_cell_at: Final = CELL.unpack_from


class _DamagedError(Exception):
    """A record of an earlier process is not what it was: the careful way finds out, and says so."""


def read_filtered(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    count_max: int,
    *,
    limits: CellLimits,
    scan: RecordScan,
    matches: Callable[[Buffer], bool],
    scan_max: int,
    turn: LookTurn,
) -> GetResult | None:
    """Messages from `offset` on that match, at most `count_max`, of at most `scan_max` looked at.

    Looking ends with the turn, too; the clock is asked each time `LOOK_BYTES_MAX` have been looked at.
    """
    min_offset, max_offset = int(queue.min_offset), int(queue.max_offset)
    if not min_offset <= offset < max_offset:
        return None
    wanted = max(min(count_max, limits.count_max), 1)
    scan_count = min(max(SCAN_CELLS_MIN, wanted), scan_max)
    looked = 0
    places: list[tuple[int, int, int]] = []  # cells looked at with this one, log offset, size
    view: memoryview | None = None
    position = begin = end = 0
    while looked < scan_count and len(places) < wanted and offset + looked < max_offset:
        if looked and turn.is_over():
            break
        count = min(FIRST_LOOK * wanted if not looked else scan_count, scan_count - looked)
        cells = queue.peek_cells(offset + looked, count)
        if not cells or isinstance(cells, ColdRange):
            break
        first = _cell_at(cells)[0]
        last, last_size, _ = _cell_at(cells, len(cells) - CELL_BYTES)
        end = last + last_size
        if end - first > LOOK_BYTES_MAX and len(cells) > CELL_BYTES:
            count = max(1, len(cells) // CELL_BYTES * LOOK_BYTES_MAX // (end - first))
            cells = cells[: count * CELL_BYTES]
            last, last_size, _ = _cell_at(cells, len(cells) - CELL_BYTES)
            end = last + last_size
        following = log.warm_view(first, end)
        if (
            following is None
            or first < log.max_offset - limits.memory_bytes
            or (view is not None and view is not following)
        ):
            break
        view, begin = following, first - first % log.file_bytes
        found: list[tuple[int, int, int]] = []
        try:
            passed = scan(
                CELL.iter_unpack(cells) if first >= log.own_from else _intact_cells(view, begin, cells),
                view,
                begin,
                first,
                end,
                RECORD_BYTES_MIN + len(queue.topic.encode()),
                wanted - len(places),
                found,
                matches,
            )
        except _DamagedError:
            return None
        if not passed:
            break
        places += [(looked + number, at, size) for number, at, size in found] if looked else found
        position = _cell_at(cells, (passed - 1) * CELL_BYTES)[0]
        looked += passed
    if not looked or view is None:
        return None
    behind = log.max_offset - position
    if not places:
        return GetResult(GetStatus.NO_MATCHED_MESSAGE, offset + looked, min_offset, max_offset, behind_bytes=behind)
    taken_bytes = sum([size for _, _, size in places])
    if taken_bytes > limits.bytes_max:
        places, taken_bytes = _within(places, limits.bytes_max)
        looked = places[-1][0]
    part: Buffer
    first, last_end = places[0][1], places[-1][1] + places[-1][2]
    if last_end - first == taken_bytes:  # they lie together
        part = view[first - begin : last_end - begin]
    else:
        part = b"".join([view[at - begin : at - begin + size] for _, at, size in places])
    return GetResult(
        GetStatus.FOUND,
        offset + looked,
        min_offset,
        max_offset,
        (part,),
        taken_bytes,
        len(places),
        False,
        behind,
    )


def _within(places: list[tuple[int, int, int]], bytes_max: int) -> tuple[list[tuple[int, int, int]], int]:
    """The first places, as many as the limit allows, but one at least; and their bytes."""
    taken_bytes = 0
    for count, (_, _, size) in enumerate(places):
        if count and taken_bytes + size > bytes_max:
            return places[:count], taken_bytes
        taken_bytes += size
    return places, taken_bytes


def _intact_cells(view: memoryview, begin: int, cells: bytes) -> Iterator[tuple[int, int, int]]:
    """The cells of records that an earlier process wrote, which are looked at first."""
    for cell in CELL.iter_unpack(cells):
        position, size, _ = cell
        if not is_intact(view, position - begin, size, position):
            raise _DamagedError
        yield cell
