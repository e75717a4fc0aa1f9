"""Consumer groups: which there are, making, changing and deleting them, and how far they are.

A group is known to brokers by its settings and, once a member has come, by its retry topic: that topic's route says
which brokers to ask about it. What its members do is in `members`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from skyrocketmq.admin.fan_out import Steps, ask_each, ask_each_for
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.group_values import GroupChange, GroupProgress, GroupSummary, QueueProgress, TimeSpan
from skyrocketmq.admin.members import GroupMembers
from skyrocketmq.admin.moments import moment_of
from skyrocketmq.admin.nodes import BrokerNode
from skyrocketmq.admin.topics import TopicAdmin
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue, SubscriptionGroupConfig
from skyrocketmq.model.names import (
    RETRY_PREFIX,
    SYSTEM_GROUPS,
    check_group,
    dlq_topic,
    is_retry_topic,
    is_system_group,
    retry_topic,
)
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.bodies_admin import ConsumeStats, ConsumeStatsList, ConsumeTimeSpans
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_admin import (
    DeleteSubscriptionGroupHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    TopicOfGroupHeader,
)

__all__ = ["GroupAdmin"]


class GroupAdmin(GroupMembers):
    """`admin.groups`."""

    def __init__(self, gateway: Gateway, topics: TopicAdmin) -> None:
        super().__init__(gateway)
        self._topics = topics

    # -------------------------------------------------------------------------------------------------------- settings

    async def names(self, *, cluster: str | None = None, internal: bool = False) -> list[str]:
        """The groups that the brokers of a cluster, or all, have. `internal`: also the system's."""
        steps = Steps("the names of groups")
        tables = await steps.take(self.configs(cluster=cluster))
        found = sorted({group for table in tables.values() for group in table})
        return steps.done(
            [group for group in found if internal or not (group in SYSTEM_GROUPS or is_system_group(group))]
        )

    async def create(
        self,
        group: str,
        *,
        consume_enabled: bool = True,
        consume_from_min_enabled: bool = True,
        broadcast_enabled: bool = True,
        retry_queues: int = 1,
        retry_count_max: int = 16,
        read_from_broker_id: int = 0,
        read_slowly_from_broker_id: int = 1,
        notify_members: bool = True,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[BrokerNode]:
        """Make a group, or replace its settings, on one broker, on a cluster's masters, or on all. Where it is now."""
        check_group(group)
        config = SubscriptionGroupConfig(
            group_name=group,
            consume_enable=consume_enabled,
            consume_from_min_enable=consume_from_min_enabled,
            consume_broadcast_enable=broadcast_enabled,
            retry_queue_nums=retry_queues,
            retry_max_times=retry_count_max,
            broker_id=read_from_broker_id,
            which_broker_when_consume_slowly=read_slowly_from_broker_id,
            notify_consumer_ids_changed_enable=notify_members,
        )
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster)
        return await ask_each_for(f"create group {group}", nodes, lambda node: self._put(node, config), list)

    async def _put(self, node: BrokerNode, config: SubscriptionGroupConfig) -> None:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._gateway.ask(node, code, body=encode_body(config))

    async def update(
        self,
        group: str,
        *,
        consume_enabled: bool | None = None,
        broadcast_enabled: bool | None = None,
        retry_queues: int | None = None,
        retry_count_max: int | None = None,
        read_slowly_from_broker_id: int | None = None,
        notify_members: bool | None = None,
    ) -> list[GroupChange]:
        """Change some settings of a group on every broker that has it; what is not given stays as it is on each."""
        given = {
            "consume_enable": consume_enabled,
            "consume_broadcast_enable": broadcast_enabled,
            "retry_queue_nums": retry_queues,
            "retry_max_times": retry_count_max,
            "which_broker_when_consume_slowly": read_slowly_from_broker_id,
            "notify_consumer_ids_changed_enable": notify_members,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            raise IllegalArgument("nothing is given to change")
        before = await Steps(f"change group {group}").need(self.config(group))

        async def change(node: BrokerNode) -> GroupChange:
            after = replace(before[node], **changes)
            await self._put(node, after)
            return GroupChange(node=node, before=before[node], after=after)

        return await ask_each_for(f"change group {group}", before, change, lambda done: list(done.values()))

    async def delete(
        self, group: str, *, remove_offsets: bool = False, broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerNode]:
        """Delete a group from one broker, from a cluster, or from everywhere, there with its retry topic and its dead
        letters. Its offsets stay unless they are to go too: a group of this name would go on there."""
        if broker is None and cluster is None:
            nodes = [node for node in await self.nodes(group) if node.is_master]
        else:
            nodes = await self._gateway.nodes(broker=broker, cluster=cluster)
        header = DeleteSubscriptionGroupHeader(group, remove_offsets)
        code = RequestCode.DELETE_SUBSCRIPTIONGROUP
        deleted = await ask_each_for(
            f"delete group {group}", nodes, lambda node: self._gateway.ask(node, code, header), list
        )
        if broker is None:
            steps = Steps(f"delete group {group}")
            for topic in (retry_topic(group), dlq_topic(group)):
                await steps.take(self._topics.delete_at(topic, nodes, cluster=cluster))
            steps.done(deleted)
        return deleted

    # -------------------------------------------------------------------------------------------------------- progress

    async def progress(self, group: str, *, topic: str | None = None, members: bool = False) -> GroupProgress:
        """How far a group is, in one topic or in all that it consumes. `members`: also who holds each queue, which asks
        every member."""
        nodes = await self.nodes(group)
        header = GetConsumeStatsHeader(group, topic)

        async def ask(node: BrokerNode) -> ConsumeStats:
            code, timeout_s = RequestCode.GET_CONSUME_STATS, self._gateway.slow_timeout_s
            return await self._gateway.ask_for(ConsumeStats, node, code, header, timeout_s=timeout_s)

        what = f"the progress of group {group}"
        steps = Steps(what)
        progress = await steps.take(ask_each_for(what, nodes, ask, lambda found: _progress(group, found.values())))
        if members:
            connections = await steps.take(self.connections(group))
            clients = [member.client_id for member in connections.members]
            infos = await steps.take(
                ask_each(f"the queues of members of {group}", clients, lambda one: self.running_info(group, one))
            )
            owners = {queue: client for client, info in infos.items() for queue in info.mq_table}
            progress = _owned(progress, owners)
        return steps.done(progress)

    async def summaries(self) -> list[GroupSummary]:
        """A line for each group that has a retry topic: how many members, how fast, how far behind."""
        topics = [name for name in await self._topics.names(internal=True) if is_retry_topic(name)]
        groups = [topic.removeprefix(RETRY_PREFIX) for topic in topics]
        return await ask_each_for(
            "the progress of all groups", groups, self.summary, lambda found: list(found.values())
        )

    async def summary(self, group: str) -> GroupSummary:
        """A group in one line."""
        steps = Steps(f"group {group}")
        progress = await steps.take(self.progress(group))
        connections = await steps.take(self.connections(group))
        summary = GroupSummary(
            group=group,
            member_count=len(connections.members),
            version=min((member.version for member in connections.members), default=None),
            consume_type=connections.consume_type,
            message_model=connections.message_model,
            consume_tps=progress.consume_tps,
            lag=progress.lag,
        )
        return steps.done(summary)

    async def progress_on_broker(self, broker: str, *, ordered: bool = False) -> list[GroupProgress]:
        """How far all groups are on one broker. `ordered`: only those that consume in order now."""
        node = await self._gateway.node(broker)
        code, header = RequestCode.GET_BROKER_CONSUME_STATS, GetBrokerConsumeStatsHeader(ordered)
        timeout_s = self._gateway.slow_timeout_s
        found = await self._gateway.ask_for(ConsumeStatsList, node, code, header, timeout_s=timeout_s)
        by_group: dict[str, list[ConsumeStats]] = {}
        for table in found.consume_stats_list:
            for group, stats in table.items():
                by_group.setdefault(group, []).extend(stats)
        return [_progress(group, stats) for group, stats in sorted(by_group.items())]

    async def time_spans(self, group: str, topic: str) -> list[TimeSpan]:
        """When the messages of a topic's queues were stored, and how late the group is in each."""
        nodes = await self._gateway.topic_nodes(topic)
        code, header = RequestCode.QUERY_CONSUME_TIME_SPAN, TopicOfGroupHeader(topic, group)

        async def ask(node: BrokerNode) -> ConsumeTimeSpans:
            return await self._gateway.ask_for(ConsumeTimeSpans, node, code, header)

        return await ask_each_for(
            f"the times of group {group} in topic {topic}", nodes, ask, lambda found: _spans(found.values())
        )


def _progress(group: str, answers: Iterable[ConsumeStats]) -> GroupProgress:
    found = list(answers)
    rows = [
        QueueProgress(
            queue=queue,
            broker_offset=offsets.broker_offset,
            consumer_offset=offsets.consumer_offset,
            last_consumed_at=moment_of(offsets.last_timestamp),
        )
        for stats in found
        for queue, offsets in stats.offset_table.items()
    ]
    return GroupProgress(
        group=group,
        queues=tuple(sorted(rows, key=lambda row: row.queue)),
        consume_tps=sum(stats.consume_tps for stats in found),
    )


def _owned(progress: GroupProgress, owners: Mapping[MessageQueue, str]) -> GroupProgress:
    queues = tuple(
        QueueProgress(
            queue=row.queue,
            broker_offset=row.broker_offset,
            consumer_offset=row.consumer_offset,
            last_consumed_at=row.last_consumed_at,
            client_id=owners.get(row.queue),
        )
        for row in progress.queues
    )
    return GroupProgress(group=progress.group, queues=queues, consume_tps=progress.consume_tps)


def _spans(answers: Iterable[ConsumeTimeSpans]) -> list[TimeSpan]:
    spans = [
        TimeSpan(
            queue=span.message_queue,
            first_at=moment_of(span.min_timestamp),
            last_at=moment_of(span.max_timestamp),
            consumed_at=moment_of(span.consume_timestamp),
            delay_ms=max(0, span.delay_time),
        )
        for answer in answers
        for span in answer.consume_time_span_set
        if span.message_queue is not None
    ]
    return sorted(spans, key=lambda span: span.queue)
