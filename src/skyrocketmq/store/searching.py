"""Finding messages otherwise than by their place in a queue: by time, by key, by log offset.

Rule 1: store times rise along a queue, so time is searched by halving. Equal times give the first of them, which skips
nothing; the family's brokers give any of them.
Rule 2: what a key query returns may belong to another key with the same hash; the asker compares.
Rule 3: a log offset that somebody sends is not believed: only the place where a record says it begins is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from skyrocketmq.model.flags import BORN_HOST_V6
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE, ConsumeQueue
from skyrocketmq.store.index import Index
from skyrocketmq.store.intact import is_intact
from skyrocketmq.store.reading import Buffer, read_record
from skyrocketmq.wire.records import MESSAGE_MAGIC, RECORD_BYTES_MIN

__all__ = ["QueryResult", "message_at", "offset_by_time", "query", "store_time_at"]

QUERY_ROUNDS: Final = 3
_HEAD: Final = Struct(">iI20xqi")  # | total | magic | ... | log offset | system flag |
_STORE_TIME_AT: Final = 56
_STORE_TIME_BYTES: Final = 76  # the head up to the store time, wherever it stands
_time_at = Struct(">q").unpack_from


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Records found by a key, in the order of the log, and how far the index reaches."""

    records: tuple[Buffer, ...]
    index_last_update_ms: int
    index_last_update_offset: int


def message_at(log: CommitLog, position: int) -> Steps[Buffer | None]:
    """The record that begins at this log offset; None if none does."""
    head = yield from read_record(log, position, RECORD_BYTES_MIN)
    if head is None:
        return None
    total, magic, log_offset, _ = _HEAD.unpack_from(head)
    if magic != MESSAGE_MAGIC or log_offset != position or total < RECORD_BYTES_MIN:
        return None
    record = yield from read_record(log, position, total)
    if record is not None and position < log.own_from and not is_intact(record, 0, total, position):
        log.bad_records.note(position, total)
        return None
    return record


def store_time_at(log: CommitLog, position: int) -> Steps[int]:
    """Store time of the record at this log offset; -1 if it is not kept."""
    head = yield from read_record(log, position, _STORE_TIME_BYTES)
    if head is None:
        return -1
    _, magic, _, sys_flag = _HEAD.unpack_from(head)
    if magic != MESSAGE_MAGIC:
        return -1
    store_ms: int = _time_at(head, _STORE_TIME_AT + (12 if sys_flag & BORN_HOST_V6 else 0))[0]
    return store_ms


def queue_store_time(log: CommitLog, queue: ConsumeQueue, offset: int) -> Steps[int]:
    """Store time of a queue's message; -1 if there is none."""
    if not queue.min_offset <= offset < queue.max_offset:
        return -1
    cell = queue.peek_cells(offset, 1)
    if isinstance(cell, ColdRange):
        (cell,) = yield [cell]
    if not cell or len(cell) < CELL_BYTES:
        return -1
    position, size, _ = CELL.unpack(cell)
    if size == FILLER_SIZE:
        return -1
    time = yield from store_time_at(log, position)
    return time


def offset_by_time(log: CommitLog, queue: ConsumeQueue, timestamp_ms: int) -> Steps[int]:
    """The offset of the message stored at this time, or of the one stored nearest to it; the earlier of two as near.

    0 for a queue without messages.
    """
    low, high = int(queue.min_offset), int(queue.max_offset)
    if low >= high:
        return 0
    first, last = low, high - 1
    while low < high:  # the first message that is not older
        middle = (low + high) // 2
        store_ms = yield from queue_store_time(log, queue, middle)
        if store_ms < timestamp_ms:
            low = middle + 1
        else:
            high = middle
    if low > last:
        return last
    if low == first:
        return first
    later = yield from queue_store_time(log, queue, low)
    earlier = yield from queue_store_time(log, queue, low - 1)
    if later == timestamp_ms or earlier < 0:
        return low
    return low - 1 if timestamp_ms - earlier <= later - timestamp_ms else low


def query(
    log: CommitLog, index: Index, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int
) -> Steps[QueryResult]:
    """The newest messages of a key that were stored between the two times, both included."""
    records: list[Buffer] = []
    last_ms = last_offset = 0
    for _ in range(QUERY_ROUNDS):
        found = yield from index.find(topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms)
        last_ms, last_offset = found.last_update_ms, found.last_update_offset
        if not found.log_offsets:
            break
        places = sorted(found.log_offsets)
        for position in places:
            record = yield from message_at(log, position)
            if record is not None:
                records.append(record)
        if records:
            break
        # All that was found is gone from the log already; older ones surely are, so this hardly ever helps.
        end_ms = yield from store_time_at(log, places[0])
        if end_ms < begin_ms:
            break
    return QueryResult(tuple(records), last_ms, last_offset)
