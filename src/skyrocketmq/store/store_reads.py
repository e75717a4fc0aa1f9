"""The ways out of a store: messages of a queue, and searches.

Rule: readers see what is committed, and nothing of an open batch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from skyrocketmq.config import BrokerRole
from skyrocketmq.hot import TagCodes
from skyrocketmq.model.offsets import QueueOffset
from skyrocketmq.store.cold_reads import Pending, Steps
from skyrocketmq.store.consume_queue import CELL, ConsumeQueue
from skyrocketmq.store.look_turn import LookTurn
from skyrocketmq.store.reading import Buffer, GetResult, RecordFilter, read_queue
from skyrocketmq.store.searching import (
    QueryResult,
    message_at,
    offset_by_time,
    query,
    queue_store_time,
    record_at,
    store_time_at,
)
from skyrocketmq.store.statuses import GetStatus
from skyrocketmq.store.store_parts import StoreParts

__all__ = ["StoreReads"]

_SLAVE_KEEPS_OFFSET: Final = frozenset(
    {
        GetStatus.NO_MESSAGE_IN_QUEUE,
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
    }
)


class StoreReads(StoreParts):
    """A store that can be read."""

    # ----------------------------------------------------------------------------------------------------- reading

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        *,
        tags: TagCodes | None = None,
        filter: RecordFilter | None = None,
    ) -> GetResult | Pending[GetResult] | None:
        """Messages of a queue from `offset` on: the result if all is in memory, else what to await (`finish()`).

        None while the store is not readable. `tags`: only messages whose tags have one of these hashes; `filter`: only
        those that it wants.
        """
        if not self.state.is_readable:
            return None
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return self._count(GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0), offset)
        monotonic = self._clock.monotonic
        started = monotonic()
        result = self._reads.start(self._read(queue, offset, count_max, tags, filter))
        self.statistics.got(monotonic() - started, is_cold=isinstance(result, Pending))
        if isinstance(result, Pending):
            return self._reads.start(self._read_patiently(queue, offset, count_max, tags, filter))
        return self._count(result, offset)

    async def read_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        *,
        tags: TagCodes | None = None,
        filter: RecordFilter | None = None,
    ) -> GetResult | None:
        """The same, waiting for the disk where needed."""
        result = self.get_messages(topic, queue_id, offset, count_max, tags=tags, filter=filter)
        return await result.finish() if isinstance(result, Pending) else result

    def _read_patiently(
        self, queue: ConsumeQueue, offset: int, count_max: int, tags: TagCodes | None, filter: RecordFilter | None
    ) -> Steps[GetResult]:
        try:
            result = yield from self._read(queue, offset, count_max, tags, filter)
        except FileNotFoundError:  # cleaned away while the read waited for the disk: by now the queue knows it
            result = yield from self._read(queue, offset, count_max, tags, filter)
        return self._count(result, offset)

    def _count(self, result: GetResult, offset: int) -> GetResult:
        """What a read from `offset` gives, now that it is over."""
        statistics = self.statistics
        if result.count:
            statistics.get_found += 1
            statistics.get_count += result.count
            return result
        statistics.get_missed += 1
        if self.config.broker_role is BrokerRole.SLAVE and result.status in _SLAVE_KEEPS_OFFSET:
            # The slave may merely be behind; the master knows better.
            return result if self.config.offset_check_in_slave else replace(result, next_offset=offset)
        return result

    def _read(
        self,
        queue: ConsumeQueue,
        offset: int,
        count_max: int,
        tags: TagCodes | None,
        filter: RecordFilter | None,
    ) -> Steps[GetResult]:
        extensions = self.extensions
        return read_queue(
            self.log,
            queue,
            offset,
            count_max,
            limits=self._limits,
            tags=tags,
            filter=filter,
            turn=None if filter is None else LookTurn(self._clock.monotonic),
            find_unit=None if extensions is None else partial(extensions.find, queue),
        )

    async def read_cells(self, queue: ConsumeQueue, offset: int, count_max: int) -> list[tuple[int, int, int]] | None:
        """Cells of a queue (log offset, size, tags code) from an offset on, all of one file; None if there is none."""
        if not queue.first_offset <= offset < queue.max_offset or count_max <= 0:
            return None
        data = await self._reads.run(queue.read_cells(offset, min(count_max, queue.max_offset - offset)))
        return list(CELL.iter_unpack(data)) or None

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The oldest message of a queue; 0 for one without messages."""
        queue = self.queues.find(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """One more than the newest message of a queue; 0 for one without messages."""
        queue = self.queues.find(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.max_offset

    def is_far_behind(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message is so far behind the newest that it is taken to be on disk; False if there is none."""
        queue = self.queues.find(topic, queue_id)
        cell = None if queue is None else queue.read_cell(offset)
        return cell is not None and self.log.max_offset - cell[0] > self._limits.memory_bytes

    # --------------------------------------------------------------------------------------------------- searching

    async def message_at(self, log_offset: int) -> Buffer | None:
        """The message at this place in the log; None if no queue has a message that begins there."""
        return await self._reads.run(message_at(self.log, self.queues, log_offset))

    async def record_at(self, log_offset: int) -> Buffer | None:
        """What looks like a record there, in a queue or not: for comparing copies of the log, not for clients."""
        return await self._reads.run(record_at(self.log, log_offset))

    async def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of a queue's message in ms; -1 if there is none."""
        queue = self.queues.find(topic, queue_id)
        return -1 if queue is None else await self._reads.run(queue_store_time(self.log, queue, offset))

    async def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> QueueOffset:
        """The queue offset of the message stored at this time or nearest to it; 0 if there is none."""
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return QueueOffset(0)
        return QueueOffset(await self._reads.run(offset_by_time(self.log, queue, timestamp_ms)))

    async def earliest_time(self, topic: str | None = None, queue_id: int = 0) -> int:
        """Store time of the oldest message of a queue, or of the whole store; -1 if there is none."""
        if topic is not None:
            return await self.store_time(topic, queue_id, self.min_offset(topic, queue_id))
        return await self._reads.run(store_time_at(self.log, self.log.min_offset))

    async def query(self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int) -> QueryResult:
        """The newest messages with this key or unique id, stored between the two times, both included."""
        if self.index is None:
            return QueryResult((), 0, 0)
        self.writer.key_feed.put_all()
        count_max = min(count_max, self.config.index_query_count_max)
        steps = query(self.log, self.index, topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms)
        return await self._reads.run(steps)
