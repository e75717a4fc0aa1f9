"""Requests about offsets: how far a group is, where a queue begins and ends, what was stored when."""

from __future__ import annotations

from skyrocketmq.broker.access_rules import ADMIN, reads, uses
from skyrocketmq.broker.answers import check_names, not_the_brokers, refusal
from skyrocketmq.broker.consumer_offsets import ConsumerOffsets, is_of_another_log, young_queue_start
from skyrocketmq.broker.slave_progress import AGE_FIELD, KNOWS_AGES_FIELD, CommitTimes
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder
from skyrocketmq.net import Request, answers
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.slices import joined_in_slices
from skyrocketmq.store import ConfigFile, MessageStore
from skyrocketmq.wire.bodies import body_parts, decode_body
from skyrocketmq.wire.bodies_tables import ConsumerOffsetTable, DelayOffsetTable
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import NoFields
from skyrocketmq.wire.headers_pull import (
    EarliestStoreTimeAnswer,
    OffsetAnswer,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)

__all__ = ["OffsetHandlers"]


class OffsetHandlers:
    """The answers, from the table of offsets and from the store."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        offsets: ConsumerOffsets,
        commit_times: CommitTimes,
        store: MessageStore,
        disk: Disk,
        clock: Clock,
    ) -> None:
        self._config = config
        self._offsets = offsets
        self._commit_times = commit_times
        self._store = store
        self._is_slave = store.config.broker_role is BrokerRole.SLAVE  # which may have less than groups have read
        self._disk = disk
        self._clock = clock
        self._delay_offsets_file = ConfigFile(disk, config.current.store.root_path / "config" / "delayOffset.json")

    # -- groups

    @answers(RequestCode.QUERY_CONSUMER_OFFSET, needs=reads("topic", "consumerGroup"))
    def find_offset(self, request: Request[QueryConsumerOffsetHeader]) -> OffsetAnswer:
        """How far a group is in a queue. A group that never said so starts where a young queue begins."""
        group = request.required(request.header.consumer_group, "consumerGroup")
        topic, queue_id = _queue(request)
        offset = self._offsets.find(group=group, topic=topic, queue_id=queue_id)
        if offset is None or offset < 0:
            offset = self._start_in(topic, queue_id)
        if offset is None:
            raise refusal(
                ResponseCode.QUERY_NOT_FOUND,
                f"group {group} has no offset for queue {queue_id} of topic {topic}: "
                "it has yet to commit one, and starts where it is configured to",
            )
        return OffsetAnswer(offset=offset)

    def _start_in(self, topic: str, queue_id: int) -> int | None:
        min_offset, begin = self._store.min_offset(topic, queue_id), self._store.ended.find(topic, queue_id)
        is_first_cold = min_offset <= begin and self._store.is_far_behind(topic, queue_id, max(min_offset, 0))
        return young_queue_start(begin=begin, min_offset=min_offset, is_first_cold=is_first_cold)

    @answers(RequestCode.UPDATE_CONSUMER_OFFSET, needs=reads("topic", "consumerGroup"))
    def commit_offset(self, request: Request[UpdateConsumerOffsetHeader]) -> OffsetAnswer | None:
        """How far a group is now; taken as it is said, unless it was said of another log.

        From a slave it is what groups committed there a while ago: it counts unless they committed here since. Slaves
        alone are answered with the offset that counts now.
        """
        group = request.required(request.header.consumer_group, "consumerGroup")
        not_the_brokers(group)
        topic, queue_id = _queue(request)
        offset = request.required(request.header.commit_offset, "commitOffset")
        check_names(topic=topic, group=group, queue_id=queue_id)
        age_ms = (request.frame.ext or {}).get(AGE_FIELD) or ""
        known = self._offsets.find(group=group, topic=topic, queue_id=queue_id)
        is_progress = self._is_slave or not is_of_another_log(
            offset, stored=known, queue_end=self._store.max_offset(topic, queue_id)
        )
        if not age_ms.isdecimal():
            if is_progress:
                self._offsets.commit(group=group, topic=topic, queue_id=queue_id, offset=offset)
            return None
        if is_progress and self._commit_times.is_unchanged_for(f"{topic}@{group}", queue_id, int(age_ms)):
            self._offsets.commit(group=group, topic=topic, queue_id=queue_id, offset=offset)
            known = offset
        return OffsetAnswer(offset=offset if known is None else known)

    @answers(RequestCode.GET_ALL_CONSUMER_OFFSET, answer=ConsumerOffsetTable, needs=ADMIN)
    async def list_offsets(self, request: Request[NoFields]) -> Frame:
        """The offsets of all groups, for slaves."""
        # Java reads numbers as keys with and without quotation marks; with them a large table is written fifty times
        # faster, and slaves ask for it every ten seconds.
        parts = body_parts(ConsumerOffsetTable(offset_table=self._offsets.live_table()), standard_json=True)
        return request.frame.reply(ext={KNOWS_AGES_FIELD: "true"}, body=await joined_in_slices(parts, self._clock))

    @answers(RequestCode.GET_ALL_DELAY_OFFSET, needs=ADMIN)
    async def list_delay_offsets(self, request: Request[NoFields]) -> DelayOffsetTable:
        """How far delayed messages are delivered, for slaves: what the file holds."""
        table = await self._disk.run(self._delay_offsets_file.load, lambda data: decode_body(DelayOffsetTable, data))
        return table or DelayOffsetTable()

    # -- queues

    @answers(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, needs=uses("topic"))
    async def search_by_time(self, request: Request[SearchOffsetHeader]) -> OffsetAnswer:
        """The offset of the message of a queue that was stored at a time, or nearest to it."""
        topic, queue_id = _queue(request)
        timestamp_ms = request.required(request.header.timestamp, "timestamp")
        return OffsetAnswer(offset=await self._store.offset_by_time(topic, queue_id, timestamp_ms))

    @answers(RequestCode.GET_MAX_OFFSET, needs=uses("topic"))
    def max_offset(self, request: Request[QueueHeader]) -> OffsetAnswer:
        """The offset that the next message of a queue will have."""
        return OffsetAnswer(offset=self._store.max_offset(*_queue(request)))

    @answers(RequestCode.GET_MIN_OFFSET, needs=uses("topic"))
    def min_offset(self, request: Request[QueueHeader]) -> OffsetAnswer:
        """The offset of the oldest message of a queue that is still kept."""
        return OffsetAnswer(offset=self._store.min_offset(*_queue(request)))

    @answers(RequestCode.GET_EARLIEST_MSG_STORETIME, needs=uses("topic"))
    async def earliest_time(self, request: Request[QueueHeader]) -> EarliestStoreTimeAnswer:
        """When the oldest message of a queue was stored; -1 if it has none."""
        return EarliestStoreTimeAnswer(timestamp=await self._store.earliest_time(*_queue(request)))


OfQueue = QueueHeader | SearchOffsetHeader | QueryConsumerOffsetHeader | UpdateConsumerOffsetHeader


def _queue(request: Request[OfQueue]) -> tuple[str, int]:
    return request.required(request.header.topic, "topic"), request.required(request.header.queue_id, "queueId")
