"""Reading a queue for a consumer that takes only some of its messages, where they are in memory.

A hot module: one call a pull, and one or two calls of the filter, each for all records that it comes across.

Rule 1: this is the common case of `reading.read_queue` with a filter, and gives the same messages. What is not common
(records on the disk, damaged ones, the end of a log file) is left to that: None.
Rule 2: as there, one pull looks at some hundred messages if few of them match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocketmq.filters import RecordScan
from skyrocketmq.store.cold_reads import ColdRange
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, ConsumeQueue
from skyrocketmq.store.intact import is_intact
from skyrocketmq.store.reading import SCAN_CELLS_MIN, Buffer, GetResult, ReadLimits
from skyrocketmq.store.statuses import GetStatus
from skyrocketmq.wire.records import RECORD_BYTES_MIN

__all__ = ["read_filtered"]

LOOK_MIN: Final = 8  # cells, of one look


def read_filtered(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    count_max: int,
    *,
    limits: ReadLimits,
    scan: RecordScan,
    matches: Callable[[Buffer], bool],
    scan_max: int,
) -> GetResult | None:
    """Messages from `offset` on that match, at most `count_max`, of at most `scan_max` looked at."""
    min_offset, max_offset = int(queue.min_offset), int(queue.max_offset)
    if not min_offset <= offset < max_offset:
        return None
    wanted = max(min(count_max, limits.count_max), 1)
    scan_count = min(max(SCAN_CELLS_MIN, wanted), scan_max)
    looked = 0
    taken: list[tuple[int, int, int]] = []  # cells
    places: list[int] = []  # of these, from `offset` on
    view: memoryview | None = None
    position = begin = 0
    while looked < scan_count and len(taken) < wanted and offset + looked < max_offset:
        # First as many as are wanted; then as many as it takes if the rest match as often as these did.
        count = (wanted - len(taken)) * looked // len(taken) if taken else max(wanted, 3 * looked)
        data = queue.peek_cells(offset + looked, min(max(count, LOOK_MIN), scan_count - looked))
        if not data or isinstance(data, ColdRange):
            break
        cells = list(CELL.iter_unpack(data))
        first, end = cells[0][0], cells[-1][0] + cells[-1][1]
        following = log.warm_view(first, end)
        if (
            following is None
            or first < log.max_offset - limits.memory_bytes
            or (view is not None and view is not following)
        ):
            break
        view, begin = following, first - first % log.file_bytes
        if first < log.own_from and not _are_intact(view, begin, cells):
            return None
        passed, found = scan(
            cells,
            view,
            begin,
            first,
            end,
            RECORD_BYTES_MIN + len(queue.topic.encode()),
            wanted - len(taken),
            matches,
        )
        if not passed:
            break
        taken += [cells[number] for number in found]
        places += [looked + number for number in found]
        position = cells[passed - 1][0]
        looked += passed
    if not looked or view is None:
        return None
    behind = log.max_offset - position
    if not taken:
        return GetResult(GetStatus.NO_MATCHED_MESSAGE, offset + looked, min_offset, max_offset, behind_bytes=behind)
    taken_bytes = sum([size for _, size, _ in taken])
    if taken_bytes > limits.bytes_max:
        taken, taken_bytes = _within(taken, limits.bytes_max)
        looked = places[len(taken) - 1] + 1
    part: Buffer
    first, last_end = taken[0][0], taken[-1][0] + taken[-1][1]
    if last_end - first == taken_bytes:  # they lie together
        part = view[first - begin : last_end - begin]
    else:
        part = b"".join([view[at - begin : at - begin + size] for at, size, _ in taken])
    return GetResult(
        GetStatus.FOUND,
        offset + looked,
        min_offset,
        max_offset,
        (part,),
        taken_bytes,
        len(taken),
        False,
        behind,
    )


def _within(cells: list[tuple[int, int, int]], bytes_max: int) -> tuple[list[tuple[int, int, int]], int]:
    """The first cells, as many as the limit allows, but one at least; and the bytes of their records."""
    taken_bytes = 0
    for count, (_, size, _) in enumerate(cells):
        if count and taken_bytes + size > bytes_max:
            return cells[:count], taken_bytes
        taken_bytes += size
    return cells, taken_bytes


def _are_intact(view: memoryview, begin: int, cells: list[tuple[int, int, int]]) -> bool:
    """Whether records of an earlier process are what they were; if not, the careful way finds out, and says so."""
    return all(is_intact(view, position - begin, size, position) for position, size, _ in cells)
