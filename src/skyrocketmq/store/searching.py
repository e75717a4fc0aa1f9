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
from typing import Final

from skyrocketmq.hot.layout import RECORD_TOPIC_LENGTH_BYTES
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.index import Index
from skyrocketmq.store.intact import is_intact
from skyrocketmq.store.reading import Buffer, read_record
from skyrocketmq.wire.records import (
    MESSAGE_MAGIC,
    RECORD_BYTES_MIN,
    RecordHead,
    head_bytes_of,
    log_offset_of,
    read_head,
    sizes_at,
    store_time_of,
    sys_flag_of,
)

__all__ = ["QueryResult", "message_at", "offset_by_time", "query", "record_at", "store_time_at"]

QUERY_ROUNDS: Final = 3
QUERY_BYTES_MAX: Final = 8 << 20  # of an answer: half of what a frame may hold


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
    start = yield from read_record(log, position, RECORD_BYTES_MIN)
    head = None
    if start is not None:
        head = yield from read_record(log, position, head_bytes_of(sys_flag_of(start)))
    if head is None:
        return None
    said = read_head(head)
    topic = yield from _topic_at(log, position, said)
    queue = None if topic is None else queues.find(topic, said.queue_id)
    if queue is None or not queue.first_offset <= said.queue_offset < queue.max_offset:
        return None
    cell = yield from queue.read_cells(said.queue_offset, 1)
    if len(cell) < CELL_BYTES or CELL.unpack(cell)[:2] != (position, said.total_bytes):
        return None
    record = yield from record_at(log, position)
    return record


def _topic_at(log: CommitLog, position: int, head: RecordHead) -> Steps[str | None]:
    """What stands where a record that begins here, with this head, would have its topic."""
    if head.body_bytes < 0:
        return None
    length_at = position + head_bytes_of(head.sys_flag) + head.body_bytes
    size = yield from read_record(log, length_at, RECORD_TOPIC_LENGTH_BYTES)
    if size is None or size[0] == 0:
        return None
    name = yield from read_record(log, length_at + RECORD_TOPIC_LENGTH_BYTES, size[0])
    return None if name is None else bytes(name).decode("utf-8", "replace")


def record_at(log: CommitLog, position: int) -> Steps[Buffer | None]:
    """What has the look of a record that begins at this log offset: for places that come from the store itself."""
    head = yield from read_record(log, position, RECORD_BYTES_MIN)
    if head is None:
        return None
    total, magic = sizes_at(head)
    if magic != MESSAGE_MAGIC or log_offset_of(head) != position or total < RECORD_BYTES_MIN:
        return None
    record = yield from read_record(log, position, total)
    if record is not None and position < log.own_from and not is_intact(record, 0, total, position):
        log.bad_records.note(position, total)
        return None
    return record


def store_time_at(log: CommitLog, position: int) -> Steps[int]:
    """Store time of the record at this log offset; -1 if it is not kept."""
    head = yield from read_record(log, position, RECORD_BYTES_MIN)
    return -1 if head is None or sizes_at(head)[1] != MESSAGE_MAGIC else store_time_of(head)


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
