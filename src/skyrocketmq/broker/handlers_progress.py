"""Requests about how far groups are: their progress, the times it spans, offsets of one group for another.

Whoever asks about all queues of a topic, or all topics of a group, lets others have their turn in between: a table is
walked in slices (`turns`).
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

import msgspec

from skyrocketmq.broker.access_rules import ADMIN, member_of, reads
from skyrocketmq.broker.answers import no_such_topic, not_the_brokers
from skyrocketmq.broker.clients import ConsumerTable
from skyrocketmq.broker.consumer_offsets import ConsumerOffsets
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.identity import BrokerIdentity
from skyrocketmq.broker.statistics import BrokerStatistics
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.broker.turns import Turns
from skyrocketmq.model import MessageQueue
from skyrocketmq.model.numbers import INT64_MAX
from skyrocketmq.net import Connection, Request, answers
from skyrocketmq.ports import Clock
from skyrocketmq.slices import Slices, joined_in_slices
from skyrocketmq.store import MessageStore
from skyrocketmq.wire.bodies import body_parts, encode_body
from skyrocketmq.wire.bodies_admin import (
    ConsumeOffsets,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
    GroupSubscription,
)
from skyrocketmq.wire.bodies_tables import CorrectionOffsets, TopicList
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_admin import (
    CloneGroupOffsetHeader,
    CorrectionOffsetHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    GroupHeader,
    TopicOfGroupHeader,
)
from skyrocketmq.wire.parts import Splitter

__all__ = ["ProgressHandlers"]

logger = logging.getLogger(__name__)

GROUPS_A_PART: Final = 16  # groups that become text at once


class ProgressHandlers:
    """The answers, from the table of offsets, the connected consumers and the store."""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerTable[Connection],
        offsets: ConsumerOffsets,
        store: MessageStore,
        statistics: BrokerStatistics,
        clock: Clock,
    ) -> None:
        self._identity = identity
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._statistics = statistics
        self._clock = clock
        self._turns = Turns(clock)

    # -- how far groups are

    @answers(RequestCode.GET_CONSUME_STATS, answer=ConsumeStats, needs=reads("topic", "consumerGroup"))
    async def consume_stats(self, request: Request[GetConsumeStatsHeader]) -> bytes:
        """How far a group is, in one topic or in all that it has an offset for."""
        header = request.header
        group = request.required(header.consumer_group, "consumerGroup")
        table: dict[MessageQueue, ConsumeOffsets] = {}
        tps = 0.0
        for topic in [header.topic] if header.topic else self._offsets.topics_of(group):
            config = self._topics.find(topic)
            if config is not None and self._is_read_by(group, topic):
                table |= await self._progress(group, topic, queue_count=config.read_queue_nums)
                tps += self._statistics.group_tps(topic=topic, group=group)
        return await self._body(ConsumeStats(consume_tps=tps, offset_table=table))

    @answers(RequestCode.GET_BROKER_CONSUME_STATS, answer=ConsumeStatsList, needs=ADMIN)
    async def all_consume_stats(self, request: Request[GetBrokerConsumeStatsHeader]) -> bytes:
        """How far all groups are, each in all of its topics; or in those that are consumed in order."""
        is_order = request.header.is_order
        # Groups become text as they come: a hundred thousand values kept for later are work for the garbage collector.
        answer = ConsumeStatsList(broker_addr=self._identity.address)
        splitter = Splitter(answer, "consume_stats_list", encode_body)
        texts: list[bytes] = []
        groups: list[dict[str, list[ConsumeStats]]] = []
        total_diff = 0
        slices = Slices(self._clock)
        topics: dict[str, list[str]] = {}
        for key in self._offsets.live_table():
            topic, _, group = key.partition("@")
            topics.setdefault(group, []).append(topic)
            await slices.step()
        for group in sorted(self._groups.names()):
            await slices.step()
            of_group: list[ConsumeStats] = []
            for topic in topics.get(group, ()):
                config = self._topics.find(topic)
                if config is None or (is_order and not config.order) or not self._is_read_by(group, topic):
                    continue
                table = await self._progress(group, topic, queue_count=config.write_queue_nums)
                total_diff += sum(queue.broker_offset - queue.consumer_offset for queue in table.values())
                tps = self._statistics.group_tps(topic=topic, group=group)
                of_group.append(ConsumeStats(consume_tps=tps, offset_table=table))
            groups.append({group: of_group})
            if len(groups) >= GROUPS_A_PART:
                texts += (b"," if texts else b"", splitter.entries(groups))
                groups = []
        if groups:
            texts += (b"," if texts else b"", splitter.entries(groups))
        await slices.end()
        prefix, suffix = splitter.around(msgspec.structs.replace(answer, total_diff=total_diff))
        return b"".join((prefix, *texts, suffix))

    async def _body(self, value: msgspec.Struct) -> bytes:
        return await joined_in_slices(body_parts(value), self._clock)

    def _is_read_by(self, group: str, topic: str) -> bool:
        """A topic that the members of a group no longer subscribe to says nothing about how far they are."""
        connected = self._consumers.find(group)
        return connected is None or not connected.subscriptions or topic in connected.subscriptions

    async def _progress(self, group: str, topic: str, *, queue_count: int) -> dict[MessageQueue, ConsumeOffsets]:
        table: dict[MessageQueue, ConsumeOffsets] = {}
        for queue_id in range(queue_count):
            offset = max(0, self._offsets.find(group=group, topic=topic, queue_id=queue_id) or 0)
            last_ms = await self._store.store_time(topic, queue_id, offset - 1) if offset else 0
            table[self._queue(topic, queue_id)] = ConsumeOffsets(
                broker_offset=max(0, self._store.max_offset(topic, queue_id)),
                consumer_offset=offset,
                last_timestamp=max(0, last_ms),
            )
            await self._turns.let_others()
        return table

    @answers(RequestCode.QUERY_CONSUME_TIME_SPAN, answer=ConsumeTimeSpans, needs=reads("topic", "group"))
    async def consume_time_spans(self, request: Request[TopicOfGroupHeader]) -> bytes:
        """When a queue's oldest and newest messages were stored, when the group's last one, and how late it is."""
        topic, group = _topic_of_group(request)
        config = self._topics.find(topic)
        if config is None:
            raise no_such_topic(topic, self._identity.broker_name)
        spans = []
        for queue_id in range(config.write_queue_nums):
            spans.append(await self._time_span(topic, group, queue_id))
            await self._turns.let_others()
        return await self._body(ConsumeTimeSpans(consume_time_span_set=tuple(spans)))

    async def _time_span(self, topic: str, group: str, queue_id: int) -> ConsumeTimeSpan:
        store = self._store
        max_offset = store.max_offset(topic, queue_id)
        offset = max(0, self._offsets.find(group=group, topic=topic, queue_id=queue_id) or 0)
        min_ms = await store.earliest_time(topic, queue_id)
        max_ms = await store.store_time(topic, queue_id, max_offset - 1)
        consumed_ms = await store.store_time(topic, queue_id, offset - 1) if offset else min_ms
        next_ms = await store.store_time(topic, queue_id, offset) if offset < max_offset else -1
        return ConsumeTimeSpan(
            consume_timestamp=consumed_ms,
            consume_timestamp_text=_time_text(consumed_ms),
            delay_time=max(0, self._clock.now_ms() - next_ms) if next_ms >= 0 else 0,
            max_timestamp=max_ms,
            max_timestamp_text=_time_text(max_ms),
            message_queue=self._queue(topic, queue_id),
            min_timestamp=min_ms,
            min_timestamp_text=_time_text(min_ms),
        )

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._identity.broker_name, queue_id)

    # -- one group's offsets for another

    @answers(RequestCode.CLONE_GROUP_OFFSET, needs=reads("topic", "srcGroup", "destGroup"))
    def clone_offsets(self, request: Request[CloneGroupOffsetHeader]) -> None:
        """Give a group the offsets of another, in one topic or in all that the other has offsets for.

        Apache's brokers copy nothing where no topic is named. Of topics that the members of the source no longer
        subscribe to, offsets are copied only if the request says that the source is offline.
        """
        header, by = request.header, request.connection.peer
        source = request.required(header.src_group, "srcGroup")
        target = request.required(header.dest_group, "destGroup")
        not_the_brokers(target)
        for topic in [header.topic] if header.topic else self._offsets.topics_of(source):
            if self._topics.find(topic) is None or not (header.offline or self._is_read_by(source, topic)):
                continue
            queues = self._offsets.queues_of(group=source, topic=topic)
            for queue_id, offset in queues.items():
                self._offsets.commit(group=target, topic=topic, queue_id=queue_id, offset=offset)
            logger.info(
                "offsets cloned", extra={"from": source, "to": target, "topic": topic, "queues": len(queues), "by": by}
            )

    @answers(RequestCode.QUERY_CORRECTION_OFFSET, needs=ADMIN)
    def correction_offsets(self, request: Request[CorrectionOffsetHeader]) -> CorrectionOffsets:
        """For each queue of a topic the smallest offset among groups, those to be left out apart.

        Where that is beyond the offset of the group to compare with, the answer is the largest number there is. An
        offset of messages that are gone counts for nothing. Apache's brokers delete the offsets of the groups to be
        left out, and compare with nothing: neither is meant.
        """
        header = request.header
        topic = request.required(header.topic, "topic")
        left_out = {name.strip() for name in (header.filter_groups or "").split(",")}
        smallest: dict[int, int] = {}
        for group in self._offsets.groups_of(topic):
            if group in left_out:
                continue
            for queue_id, offset in self._offsets.queues_of(group=group, topic=topic).items():
                if offset >= self._store.min_offset(topic, queue_id):
                    smallest[queue_id] = min(offset, smallest.get(queue_id, INT64_MAX))
        compared = self._offsets.queues_of(group=header.compare_group or "", topic=topic)
        for queue_id, offset in compared.items():
            if smallest.get(queue_id, 0) > offset:
                smallest[queue_id] = INT64_MAX
        return CorrectionOffsets(correction_offsets=smallest)

    # -- what groups read

    @answers(RequestCode.QUERY_TOPICS_BY_CONSUMER, needs=member_of("group"))
    def topics_of_group(self, request: Request[GroupHeader]) -> TopicList:
        """The topics that a group has read."""
        group = request.required(request.header.group, "group")
        return TopicList(broker_addr=self._identity.address, topic_list=tuple(self._offsets.topics_of(group)))

    @answers(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, needs=reads("topic", "group"))
    def subscription_of_group(self, request: Request[TopicOfGroupHeader]) -> GroupSubscription:
        """What a group subscribes to of a topic now."""
        topic, group = _topic_of_group(request)
        found = self._consumers.find_subscription(group, topic)
        return GroupSubscription(group=group, subscription_data=found, topic=topic)


def _topic_of_group(request: Request[TopicOfGroupHeader]) -> tuple[str, str]:
    return request.required(request.header.topic, "topic"), request.required(request.header.group, "group")


def _time_text(milliseconds: int) -> str:
    """A local time as the family prints it here: `1970-01-01#00:00:00:003`."""
    moment = datetime.fromtimestamp(milliseconds // 1000)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{milliseconds % 1000:03}"
