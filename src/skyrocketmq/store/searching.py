"""Finding messages otherwise than by their place in a queue: by time, by key, by log offset.

Rule 1: store times rise along a queue, so time is searched by halving. Equal times give the first of them, which skips
nothing; the family's brokers give any of them.
Rule 2: what a key query returns may belong to another key with the same hash; the asker compares.
Rule 3: a log offset that somebody sends is not believed, nor what the bytes there say: anybody can put bytes into the
log that look like a record, in the body or the properties of a message. A message is what its queue points at. So what
is in no queue any more, because its topic was deleted, is found in none of these ways; only a copy of the whole log
needs it (`record_at`).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from skyrocketmq.model.flags import BORN_HOST_V6
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.index import Index
from skyrocketmq.store.intact import is_intact
from skyrocketmq.store.reading import Buffer, read_record
from skyrocketmq.wire.records import HEADS, MESSAGE_MAGIC, RECORD_BYTES_MIN

__all__ = ["QueryResult", "message_at", "offset_by_time", "query", "record_at", "store_time_at"]

QUERY_ROUNDS: Final = 3
QUERY_BYTES_MAX: Final = 8 << 20  # of an answer: half of what a frame may hold
_HEAD: Final = Struct(">iI4xi4xqqi")  # | total | magic | . | queue id | . | queue offset | log offset | system flag |
_STORE_TIME_AT: Final = 56
_STORE_TIME_BYTES: Final = 76  # the head up to the store time, wherever it stands
_time_at = Struct(">q").unpack_from
_length_at = Struct(">i").unpack_from


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Records found by a key, in the order of the log, and how far the index reaches."""

    records: tuple[Buffer, ...]
    index_last_update_ms: int
    index_last_update_offset: int


def message_at(log: CommitLog, queues: ConsumeQueues, position: int) -> Steps[Buffer | None]:
    """The message that begins at this log offset; None if none does.

    Nothing but its head and its topic are read before its queue has confirmed place and size.
    """
    head = yield from read_record(log, position, RECORD_BYTES_MIN)
    if head is None:
        return None
    total, _, queue_id, queue_offset, _, sys_flag = _HEAD.unpack_from(head)
    topic = yield from _topic_at(log, position, sys_flag)
    queue = None if topic is None else queues.find(topic, queue_id)
    if queue is None or not queue.first_offset <= queue_offset < queue.max_offset:
        return None
    cell = yield from queue.read_cells(queue_offset, 1)
    if len(cell) < CELL_BYTES or CELL.unpack(cell)[:2] != (position, total):
        return None
    record = yield from record_at(log, position)
    return record


def _topic_at(log: CommitLog, position: int, sys_flag: int) -> Steps[str | None]:
    """What stands where a record that begins here, with this system flag, would have its topic."""
    body_at = position + HEADS[(sys_flag >> 4) & 3].size
    length = yield from read_record(log, body_at - 4, 4)
    if length is None or _length_at(length)[0] < 0:
        return None
    topic_at = body_at + _length_at(length)[0]
    size = yield from read_record(log, topic_at, 1)
    if size is None or size[0] == 0:
        return None
    name = yield from read_record(log, topic_at + 1, size[0])
    return None if name is None else bytes(name).decode("utf-8", "replace")


def record_at(log: CommitLog, position: int) -> Steps[Buffer | None]:
    """What has the look of a record that begins at this log offset: for places that come from the store itself."""
    head = yield from read_record(log, position, RECORD_BYTES_MIN)
    if head is None:
        return None
    total, magic, _, _, log_offset, _ = _HEAD.unpack_from(head)
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
    _, magic, _, _, _, sys_flag = _HEAD.unpack_from(head)
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
    first, end = low, high = int(queue.min_offset), int(queue.max_offset)
    if low >= high:
        return 0
    while low < high:  # the first message that is not older
        middle = (low + high) // 2
        # A filler says nothing; the message before it does.
        found = yield from queue.find_message_before(middle + 1, low)
        store_ms = -1 if found is None else (yield from queue_store_time(log, queue, found[0]))
        if found is None or store_ms < timestamp_ms:
            low = middle + 1
        else:
            high = found[0]
    before = yield from queue.find_message_before(low, first)
    if before is None:
        return low if low < end else first
    if low == end:
        return before[0]
    later = yield from queue_store_time(log, queue, low)
    earlier = yield from queue_store_time(log, queue, before[0])
    if later == timestamp_ms or earlier < 0:
        return low
    return before[0] if timestamp_ms - earlier <= later - timestamp_ms else low


def query(
    log: CommitLog,
    index: Index,
    topic: str,
    key: str,
    *,
    count_max: int,
    begin_ms: int,
    end_ms: int,
) -> Steps[QueryResult]:
    """The newest messages of a key that were stored between the two times, both included; in the order of the log.

    They take `QUERY_BYTES_MAX` at most, unless the newest alone takes more.
    """
    records: list[Buffer] = []
    last_ms = last_offset = 0
    for _ in range(QUERY_ROUNDS):
        found = yield from index.find(topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms)
        last_ms, last_offset = found.last_update_ms, found.last_update_offset
        if not found.log_offsets:
            break
        places = sorted(found.log_offsets)
        left_bytes = QUERY_BYTES_MAX
        for position in reversed(places):
            record = yield from record_at(log, position)  # the index has it from the store: no peer chose the place
            if record is None:
                continue
            left_bytes -= len(record)
            if left_bytes < 0 and records:
                break
            records.append(record)
        if records:
            records.reverse()
            break
        # All that was found is gone from the log already; older ones surely are, so this hardly ever helps.
        end_ms = yield from store_time_at(log, places[0])
        if end_ms < begin_ms:
            break
    return QueryResult(tuple(records), last_ms, last_offset)
