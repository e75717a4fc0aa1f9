"""Reading whole records of a queue inside the broker: for what it does with messages by itself.

Rule: what is in memory is read in place, and all that is cold is fetched at once (`ColdReads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocketmq.store import Buffer, ConsumeQueue
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE

__all__ = ["QueuedRecord", "fetch_records", "read_span"]

BYTES_AT_ONCE: Final = 1 << 20
SPAN_BYTES_MAX: Final = 4 << 20  # from the first record to the last, others between them included

QueuedRecord = tuple[int, Buffer]
"""(queue offset, record)"""


def read_span(
    log: CommitLog, queue: ConsumeQueue, offset: int, count_max: int
) -> Steps[tuple[list[QueuedRecord], int]]:
    """Messages of a queue from `offset` on that the log still holds, and where to read next.

    The offset is below the queue's end. At least one step forward is made, whatever is missing.
    """
    cells = queue.peek_cells(offset, count_max)
    if isinstance(cells, ColdRange):
        (cells,) = yield [cells]
        cells = cells[: len(cells) - len(cells) % CELL_BYTES]
    if not cells:
        return [], min(queue.next_file_offset(offset), int(queue.max_offset))
    places: list[tuple[int, int, int]] = []
    log_min = int(log.min_offset)
    taken_bytes = 0
    at = offset
    for position, size, _ in CELL.iter_unpack(cells):
        if size != FILLER_SIZE and position >= log_min and log.has(position, size):
            if places and taken_bytes + size > BYTES_AT_ONCE:
                break
            places.append((at, position, size))
            taken_bytes += size
        at += 1
    return (yield from fetch_records(log, places)), at


def fetch_records(log: CommitLog, places: Sequence[tuple[int, int, int]]) -> Steps[list[QueuedRecord]]:
    """The records at these places (queue offset, log offset, size)."""
    together = _slices(log, places)
    if together is not None:
        return together
    records: list[Buffer | None] = [log.peek(position, size) for _, position, size in places]
    missing = [number for number, record in enumerate(records) if record is None]
    if missing:
        fetched = yield [log.cold_range(places[number][1], places[number][2]) for number in missing]
        for number, data in zip(missing, fetched, strict=True):
            records[number] = data
    return [(place[0], record) for place, record in zip(places, records, strict=True) if record is not None]


def _slices(log: CommitLog, places: Sequence[tuple[int, int, int]]) -> list[QueuedRecord] | None:
    """Records that lie near each other, in one file, and in memory: slices of its map. None if they do not.

    Asking the page cache once for all of them costs a fraction of a read of each.
    """
    if not places:
        return []
    first, end = places[0][1], places[-1][1] + places[-1][2]
    if not 0 < end - first <= SPAN_BYTES_MAX:
        return None
    view = log.warm_view(first, end)
    if view is None:
        return None
    begin = first - first % log.file_bytes
    return [(offset, view[at - begin : at - begin + size]) for offset, at, size in places]
