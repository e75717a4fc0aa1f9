"""Requests about offsets: how far a group is, where a queue begins and ends, what was stored when."""

from __future__ import annotations

from skyrocketmq.broker.answers import check_names, not_the_brokers, refusal, required
from skyrocketmq.broker.consumer_offsets import ConsumerOffsets, is_of_another_log, young_queue_start
from skyrocketmq.broker.slave_progress import AGE_FIELD, KNOWS_AGES_FIELD, CommitTimes
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder
from skyrocketmq.net import Connection, Dispatcher
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.slices import joined_in_slices
from skyrocketmq.store import ConfigFile, MessageStore
from skyrocketmq.wire.bodies import body_parts, decode_body, encode_body
from skyrocketmq.wire.bodies_tables import ConsumerOffsetTable, DelayOffsetTable
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_pull import (
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

    def register(self, dispatcher: Dispatcher) -> None:
        for code, handler in (
            (RequestCode.QUERY_CONSUMER_OFFSET, self.find_offset),
            (RequestCode.UPDATE_CONSUMER_OFFSET, self.commit_offset),
            (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.search_by_time),
            (RequestCode.GET_MAX_OFFSET, self.max_offset),
            (RequestCode.GET_MIN_OFFSET, self.min_offset),
            (RequestCode.GET_EARLIEST_MSG_STORETIME, self.earliest_time),
            (RequestCode.GET_ALL_CONSUMER_OFFSET, self.list_offsets),
            (RequestCode.GET_ALL_DELAY_OFFSET, self.list_delay_offsets),
        ):
            dispatcher.register(code, handler)

    # -- groups

    def find_offset(self, frame: Frame, connection: Connection) -> Frame:
        """14: how far a group is in a queue. A group that never said so starts where a young queue begins."""
        header = decode_header(QueryConsumerOffsetHeader, frame.ext)
        group = required(header.consumer_group, "consumerGroup", frame)
        topic = required(header.topic, "topic", frame)
        queue_id = required(header.queue_id, "queueId", frame)
        offset = self._offsets.find(group=group, topic=topic, queue_id=queue_id)
        if offset is None or offset < 0:
            offset = self._start_in(topic, queue_id)
        if offset is None:
            raise refusal(
                ResponseCode.QUERY_NOT_FOUND,
                f"group {group} has no offset for queue {queue_id} of topic {topic}: "
                "it has yet to commit one, and starts where it is configured to",
            )
        return _offset_answer(frame, offset)

    def _start_in(self, topic: str, queue_id: int) -> int | None:
        min_offset, begin = self._store.min_offset(topic, queue_id), self._store.ended.find(topic, queue_id)
        is_first_cold = min_offset <= begin and self._store.is_far_behind(topic, queue_id, max(min_offset, 0))
        return young_queue_start(begin=begin, min_offset=min_offset, is_first_cold=is_first_cold)

    def commit_offset(self, frame: Frame, connection: Connection) -> Frame:
        """15: how far a group is now; taken as it is said, unless it was said of another log.

        From a slave it is what groups committed there a while ago: it counts unless they committed here since.
        """
        header = decode_header(UpdateConsumerOffsetHeader, frame.ext)
        group = required(header.consumer_group, "consumerGroup", frame)
        not_the_brokers(group)
        topic = required(header.topic, "topic", frame)
        queue_id = required(header.queue_id, "queueId", frame)
        offset = required(header.commit_offset, "commitOffset", frame)
        check_names(topic=topic, group=group, queue_id=queue_id)
        age_ms = (frame.ext or {}).get(AGE_FIELD) or ""
        known = self._offsets.find(group=group, topic=topic, queue_id=queue_id)
        is_progress = self._is_slave or not is_of_another_log(
            offset, stored=known, queue_end=self._store.max_offset(topic, queue_id)
        )
        if not age_ms.isdecimal():
            if is_progress:
                self._offsets.commit(group=group, topic=topic, queue_id=queue_id, offset=offset)
            return frame.reply()
        if is_progress and self._commit_times.is_unchanged_for(f"{topic}@{group}", queue_id, int(age_ms)):
            self._offsets.commit(group=group, topic=topic, queue_id=queue_id, offset=offset)
            known = offset
        return _offset_answer(frame, offset if known is None else known)

    async def list_offsets(self, frame: Frame, connection: Connection) -> Frame:
        """43: the offsets of all groups, for slaves."""
        # Java reads numbers as keys with and without quotation marks; with them a large table is written fifty times
        # faster, and slaves ask for it every ten seconds.
        parts = body_parts(ConsumerOffsetTable(offset_table=self._offsets.live_table()), standard_json=True)
        return frame.reply(ext={KNOWS_AGES_FIELD: "true"}, body=await joined_in_slices(parts, self._clock))

    async def list_delay_offsets(self, frame: Frame, connection: Connection) -> Frame:
        """45: how far delayed messages are delivered, for slaves: what the file holds."""
        table = await self._disk.run(self._delay_offsets_file.load, lambda data: decode_body(DelayOffsetTable, data))
        return frame.reply(body=encode_body(table or DelayOffsetTable()))

    # -- queues

    async def search_by_time(self, frame: Frame, connection: Connection) -> Frame:
        """29: the message of a queue that was stored at a time, or nearest to it."""
        header = decode_header(SearchOffsetHeader, frame.ext)
        offset = await self._store.offset_by_time(
            required(header.topic, "topic", frame),
            required(header.queue_id, "queueId", frame),
            required(header.timestamp, "timestamp", frame),
        )
        return _offset_answer(frame, offset)

    def max_offset(self, frame: Frame, connection: Connection) -> Frame:
        """30: the offset that the next message of a queue will have."""
        return _offset_answer(frame, self._store.max_offset(*_queue(frame)))

    def min_offset(self, frame: Frame, connection: Connection) -> Frame:
        """31: the offset of the oldest message of a queue that is still kept."""
        return _offset_answer(frame, self._store.min_offset(*_queue(frame)))

    async def earliest_time(self, frame: Frame, connection: Connection) -> Frame:
        """32: when the oldest message of a queue was stored; -1 if it has none."""
        topic, queue_id = _queue(frame)
        return frame.reply(ext={"timestamp": str(await self._store.earliest_time(topic, queue_id))})


def _queue(frame: Frame) -> tuple[str, int]:
    header = decode_header(QueueHeader, frame.ext)
    return required(header.topic, "topic", frame), required(header.queue_id, "queueId", frame)


def _offset_answer(frame: Frame, offset: int) -> Frame:
    return frame.reply(ext={"offset": str(offset)})
