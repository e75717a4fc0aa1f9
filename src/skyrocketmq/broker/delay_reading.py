"""Which messages of a delay level are due, and how long the next one has to wait.

A level is one queue of the schedule topic. Its cells keep, in the place of the tags, the time of delivery.

Rule 1: the time in the cell counts, and not the level's delay of today, unless that is shorter.
Rule 2: a message that was stored in the future says that the clock was set back. It waits for its level's delay once
more at most, from when that was noticed, by a clock that nobody sets: it is not early, and an hour makes no day.
Rule 3: what the log no longer holds is stepped over. A message in between that has to wait makes those behind it wait.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import ceil
from typing import Final

from skyrocketmq.broker.record_reading import QueuedRecord, fetch_records
from skyrocketmq.store import ConsumeQueue
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE
from skyrocketmq.store.queue_extension import EXT_ADDRESS_MAX
from skyrocketmq.store.searching import store_time_at

__all__ = ["COUNT_AT_ONCE", "DueMessage", "Look", "SetBack", "look_at_level"]

logger = logging.getLogger(__name__)

COUNT_AT_ONCE: Final = 128  # messages of one look: delivering them holds the loop for about 2 ms
BYTES_AT_ONCE: Final = 1 << 20
UNKNOWN_DELAY_MS: Final = 1000  # where neither cell nor level tells: what the family assumes

DueMessage = QueuedRecord


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a level found."""

    due: list[DueMessage]
    next_offset: int  # where to look once these are delivered
    wait_ms: int | None  # until then: 0 if more is due, None if the queue ends there


class SetBack:
    """What one level knows of a clock that was set back: until when the messages wait that it had by then."""

    __slots__ = ("_end", "_ready_s")

    def __init__(self) -> None:
        self._end = -1  # of the queue, when it was noticed
        self._ready_s = 0.0

    def notice(self, offset: int, *, queue_end: int, delay_ms: int, now_s: float) -> None:
        """The message there was stored in the future; `now_s` is monotonic. Whatever is in the queue waits alike."""
        if offset >= self._end:
            self._end, self._ready_s = queue_end, now_s + delay_ms / 1000

    def shortened(self, wait_ms: int, offset: int, *, now_s: float) -> int:
        """How long a message waits that would have to wait so long by the time of day."""
        return wait_ms if offset >= self._end else min(wait_ms, max(0, ceil((self._ready_s - now_s) * 1000)))


def look_at_level(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    *,
    now_ms: int,
    now_s: float,
    delay_ms: int | None,
    set_back: SetBack,
) -> Steps[Look]:
    """The messages of a level from `offset` on that are due, as many as are delivered at once.

    `now_s` is monotonic; `delay_ms` is the level's delay, None for one that is no longer in use.
    """
    start = _into_queue(queue, offset)
    max_offset = int(queue.max_offset)
    if start == max_offset:
        return Look([], start, None)
    cells = queue.peek_cells(start, COUNT_AT_ONCE)
    if isinstance(cells, ColdRange):
        (cells,) = yield [cells]
        cells = cells[: len(cells) - len(cells) % CELL_BYTES]
    if not cells:
        after = min(queue.next_file_offset(start), max_offset)
        logger.error(
            "queue file of a delay level is missing, stepped over",
            extra={"level": queue.queue_id + 1, "offset": start, "goes_on_at": after},
        )
        return Look([], after, 0)
    log_min = int(log.min_offset)
    places: list[tuple[int, int, int]] = []  # queue offset, log offset, size
    taken_bytes = gone = 0
    at = start
    wait: int | None = 0
    low = high = 0  # what is known to be kept: all that is written of one file
    for position, size, due_ms in CELL.iter_unpack(cells):
        is_kept = low <= position <= high - size
        if not is_kept and size != FILLER_SIZE and position >= log_min and log.has(position, size):
            is_kept = True
            high = min(log.next_file_start(position), int(log.max_offset))
            low = position
        if not is_kept:
            gone += 1
        else:
            if due_ms <= EXT_ADDRESS_MAX:
                # Apache's broker, with extension files switched on, keeps an address here; the time is in the record.
                store_ms = yield from store_time_at(log, position)
                due_ms = store_ms + (UNKNOWN_DELAY_MS if delay_ms is None else delay_ms)
            if due_ms > now_ms:
                wait = due_ms - now_ms
                if delay_ms is not None and wait > delay_ms:
                    store_ms = yield from store_time_at(log, position)
                    if store_ms > now_ms:
                        set_back.notice(at, queue_end=max_offset, delay_ms=delay_ms, now_s=now_s)
                    else:  # the level's delay was shortened since
                        wait = max(0, store_ms + delay_ms - now_ms)
                wait = set_back.shortened(wait, at, now_s=now_s)
            if wait or (places and taken_bytes + size > BYTES_AT_ONCE):
                break
            places.append((at, position, size))
            taken_bytes += size
        at += 1
    else:
        wait = None if at == queue.max_offset else 0
    if gone:
        logger.error(
            "delayed messages are gone from the log, stepped over",
            extra={"level": queue.queue_id + 1, "offset": start, "count": gone},
        )
    due = yield from fetch_records(log, places)
    return Look(due, at, wait)


def _into_queue(queue: ConsumeQueue, offset: int) -> int:
    """The offset, or the end of the queue that is nearer to it: after a crash the file may be older than the queue."""
    start = min(max(offset, int(queue.min_offset)), int(queue.max_offset))
    if start != offset:
        logger.warning(
            "delay level is outside of its queue",
            extra={"level": queue.queue_id + 1, "offset": offset, "goes_on_at": start},
        )
    return start
