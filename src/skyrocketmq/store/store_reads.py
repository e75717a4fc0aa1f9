"""The ways out of a store: messages of a queue, and searches.

Hot: a pull of what is in memory is one call of `get_resident` or `get_filtered`.
Rule: readers see what is committed, and nothing of an open batch.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from skyrocketmq.config import BrokerRole
from skyrocketmq.filters import RecordScan
from skyrocketmq.model.offsets import QueueOffset
from skyrocketmq.store.cold_reads import Pending, Steps
from skyrocketmq.store.consume_queue import CELL, ConsumeQueue
from skyrocketmq.store.filtered_reading import read_filtered
from skyrocketmq.store.look_turn import LookTurn
from skyrocketmq.store.queue_extension import ExtensionUnit
from skyrocketmq.store.reading import SCAN_CELLS_MAX, Buffer, GetResult, read_queue, read_resident
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
        tag_codes: AbstractSet[int] | None = None,
        matches: Callable[[Buffer], bool] | None = None,
        scan: RecordScan | None = None,
        scan_max: int = SCAN_CELLS_MAX,
        may_match: Callable[[ExtensionUnit], bool] | None = None,
    ) -> GetResult | Pending[GetResult] | None:
        """Messages of a queue from `offset` on: the result if all is in memory, else what to await (`finish()`).

        None while the store is not readable. `tag_codes`: only messages whose tags have one of these hashes;
        `matches`: only those whose record it accepts, of at most `scan_max` looked at; `scan` asks the same of many.
        `may_match`: none whose unit in the queue's extension, if it has one, is not accepted.
        """
        resident: GetResult | None = None
        if matches is None:
            resident = self.get_resident(topic, queue_id, offset, count_max, tag_codes=tag_codes)
        elif tag_codes is None and matches is not None and scan is not None:
            resident = self.get_filtered(
                topic, queue_id, offset, count_max, scan=scan, matches=matches, scan_max=scan_max
            )
        if resident is not None:
            return resident
        if not self.state.is_readable:
            return None
        started = self._clock.monotonic()
        result = self._reads.start(
            self._get(topic, queue_id, offset, count_max, tag_codes, matches, scan_max, may_match)
        )
        self.statistics.got(self._clock.monotonic() - started, is_cold=isinstance(result, Pending))
        return result

    def get_resident(
        self, topic: str, queue_id: int, offset: int, count_max: int, *, tag_codes: AbstractSet[int] | None = None
    ) -> GetResult | None:
        """The same for the common read, which finds messages and all of them in memory; None if it is not that."""
        if not self.state.is_readable:
            return None
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return None
        started = self._clock.monotonic()
        result = read_resident(
            self.log,
            queue,
            offset,
            count_max,
            limits=self._limits,
            tag_codes=tag_codes,
            find_unit=self._units_of(queue),
        )
        if result is not None:
            statistics = self.statistics
            statistics.got(self._clock.monotonic() - started, is_cold=False)
            statistics.get_found += 1
            statistics.get_count += result.count
        return result

    def get_filtered(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        *,
        scan: RecordScan,
        matches: Callable[[Buffer], bool],
        scan_max: int,
    ) -> GetResult | None:
        """The common read with a filter that looks into messages; None if it is not that."""
        if not self.state.is_readable or self.extensions is not None:  # bit maps may spare the looking
            return None
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return None
        started = self._clock.monotonic()
        result = read_filtered(
            self.log,
            queue,
            offset,
            count_max,
            limits=self._limits,
            scan=scan,
            matches=matches,
            scan_max=scan_max,
            turn=LookTurn(self._clock.monotonic),
        )
        if result is not None:
            self.statistics.got(self._clock.monotonic() - started, is_cold=False)
            self._count_got(result)
        return result

    async def read_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        *,
        tag_codes: AbstractSet[int] | None = None,
        matches: Callable[[Buffer], bool] | None = None,
        scan_max: int = SCAN_CELLS_MAX,
        may_match: Callable[[ExtensionUnit], bool] | None = None,
    ) -> GetResult | None:
        """The same, waiting for the disk where needed."""
        result = self.get_messages(
            topic,
            queue_id,
            offset,
            count_max,
            tag_codes=tag_codes,
            matches=matches,
            scan_max=scan_max,
            may_match=may_match,
        )
        return await result.finish() if isinstance(result, Pending) else result

    def _get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        tag_codes: AbstractSet[int] | None,
        matches: Callable[[Buffer], bool] | None,
        scan_max: int,
        may_match: Callable[[ExtensionUnit], bool] | None,
    ) -> Steps[GetResult]:
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            result = GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        else:
            try:
                result = yield from self._read(queue, offset, count_max, tag_codes, matches, scan_max, may_match)
            except FileNotFoundError:  # cleaned away while the read waited for the disk: by now the queue knows it
                result = yield from self._read(queue, offset, count_max, tag_codes, matches, scan_max, may_match)
        self._count_got(result)
        if self.config.broker_role is BrokerRole.SLAVE and result.status in _SLAVE_KEEPS_OFFSET:
            # The slave may merely be behind; the master knows better.
            return result if self.config.offset_check_in_slave else replace(result, next_offset=offset)
        return result

    def _count_got(self, result: GetResult) -> None:
        statistics = self.statistics
        if result.count:
            statistics.get_found += 1
            statistics.get_count += result.count
        else:
            statistics.get_missed += 1

    def _read(
        self,
        queue: ConsumeQueue,
        offset: int,
        count_max: int,
        tag_codes: AbstractSet[int] | None,
        matches: Callable[[Buffer], bool] | None,
        scan_max: int,
        may_match: Callable[[ExtensionUnit], bool] | None,
    ) -> Steps[GetResult]:
        return read_queue(
            self.log,
            queue,
            offset,
            count_max,
            limits=self._limits,
            tag_codes=tag_codes,
            matches=matches,
            scan_max=scan_max,
            turn=LookTurn(self._clock.monotonic),
            find_unit=self._units_of(queue),
            may_match=may_match,
        )

    def _units_of(self, queue: ConsumeQueue) -> Callable[[int], ExtensionUnit | None] | None:
        extensions = self.extensions
        return None if extensions is None else lambda address: extensions.find(queue, address)

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
