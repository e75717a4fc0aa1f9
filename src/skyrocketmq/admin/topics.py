"""Topics: which there are, where, how full; making, changing and deleting them.

A topic is made on brokers, which tell the name servers. Deleting takes both: the brokers first, then the name servers,
who would otherwise go on sending clients there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from skyrocketmq.admin.fan_out import Steps, ask_each_for
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.moments import moment_of
from skyrocketmq.admin.name_servers import ORDER_NAMESPACE, KeyValueAdmin
from skyrocketmq.admin.nodes import BrokerNode, Reach
from skyrocketmq.admin.topic_values import QueueStats, TopicChange, TopicStats, TopicUse, permission_bits
from skyrocketmq.client.allocation import AllocationStrategy, average, share_of
from skyrocketmq.client.route_rules import readable_queues
from skyrocketmq.errors import IllegalArgument, NoRoute, NotFound
from skyrocketmq.model import MessageQueue, TopicConfig, TopicRoute
from skyrocketmq.model.names import (
    AUTO_CREATE_TOPIC,
    check_topic,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
    reply_topic,
)
from skyrocketmq.wire import bodies_admin
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_admin import GroupList
from skyrocketmq.wire.bodies_tables import TopicConfigTable, TopicList
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_admin import CreateTopicHeader, TopicHeader
from skyrocketmq.wire.headers_namesrv import DeleteTopicInNamesrvHeader, GetTopicsByClusterHeader

__all__ = ["TopicAdmin"]

UNIT = 1
UNIT_SUBSCRIPTION = 2


class TopicAdmin:
    """`admin.topics`."""

    def __init__(self, gateway: Gateway, key_values: KeyValueAdmin) -> None:
        self._gateway = gateway
        self._key_values = key_values

    # --------------------------------------------------------------------------------------------------------- looking

    async def names(self, *, cluster: str | None = None, internal: bool = False) -> list[str]:
        """The names of all topics, or of a cluster's. `internal`: also the system's, and those of retries and dead
        letters."""
        if cluster is None:
            answer = await self._gateway.ask_any_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            await self._gateway.nodes(cluster=cluster)
            header = GetTopicsByClusterHeader(cluster)
            answer = await self._gateway.ask_any_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, header)
        names = sorted(set(decode_body(TopicList, answer.body).topic_list))
        if internal:
            return names
        hidden = await self._names_of_servers()
        return [name for name in names if not _is_internal(name, hidden)]

    async def system_names(self) -> list[str]:
        """The system's topics: those that brokers have, and those named after clusters and brokers."""
        nodes = await self._gateway.nodes(reach=Reach.READABLE)

        async def ask(node: BrokerNode) -> tuple[str, ...]:
            return (
                await self._gateway.ask_for(TopicList, node, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
            ).topic_list

        of_servers = await self._names_of_servers()
        return await ask_each_for(
            "the system topics",
            nodes,
            ask,
            lambda answers: sorted({*of_servers, *(name for names in answers.values() for name in names)}),
        )

    async def _names_of_servers(self) -> frozenset[str]:
        answer = await self._gateway.ask_any_name_server(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        names = decode_body(TopicList, answer.body).topic_list
        return frozenset(names) | {reply_topic(name) for name in names}

    async def route(self, topic: str) -> TopicRoute:
        """Where a topic is. Raises `NoRoute` if the name servers do not know it."""
        return await self._gateway.route(topic)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        return list(readable_queues(topic, await self.route(topic)))

    async def clusters(self, topic: str) -> list[str]:
        """The clusters that a topic is in."""
        return sorted({broker.cluster for broker in (await self.route(topic)).broker_datas})

    async def stats(self, topic: str) -> TopicStats:
        """The bounds of every queue of a topic."""
        nodes = await self._gateway.topic_nodes(topic)

        async def ask(node: BrokerNode) -> bodies_admin.TopicStats:
            header = TopicHeader(topic)
            code = RequestCode.GET_TOPIC_STATS_INFO
            return await self._gateway.ask_for(bodies_admin.TopicStats, node, code, header)

        return await ask_each_for(
            f"the queues of topic {topic}", nodes, ask, lambda answers: _stats(topic, answers.values())
        )

    async def configs(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Mapping[BrokerNode, Mapping[str, TopicConfig]]:
        """All topics as each broker has them, internal ones too."""
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster, reach=Reach.READABLE)
        return await ask_each_for("the topics of brokers", nodes, self._configs, dict)

    async def _configs(self, node: BrokerNode) -> Mapping[str, TopicConfig]:
        table = await self._gateway.ask_for(TopicConfigTable, node, RequestCode.GET_ALL_TOPIC_CONFIG)
        return table.topic_config_table

    async def groups(self, topic: str) -> list[str]:
        """The groups that consume a topic: those who subscribe to it now, and those who have consumed it."""
        nodes = await self._gateway.topic_nodes(topic)

        async def ask(node: BrokerNode) -> tuple[str, ...]:
            header = TopicHeader(topic)
            code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
            return (await self._gateway.ask_for(GroupList, node, code, header)).group_list

        return await ask_each_for(
            f"the groups of topic {topic}",
            nodes,
            ask,
            lambda answers: sorted({group for groups in answers.values() for group in groups}),
        )

    async def uses(self, *, cluster: str | None = None) -> list[TopicUse]:
        """Every topic with its clusters and the groups that consume it; retries and dead letters are left out."""
        names = await self.names(cluster=cluster, internal=True)
        asked = [name for name in names if not is_retry_topic(name) and not is_dlq_topic(name)]

        async def ask(topic: str) -> TopicUse | None:
            steps = Steps(f"the use of topic {topic}")
            try:
                clusters = tuple(await self.clusters(topic))
                groups = tuple(await steps.take(self.groups(topic)))
            except NoRoute:
                return None  # deleted since
            return steps.done(TopicUse(topic=topic, clusters=clusters, groups=groups))

        return await ask_each_for(
            "the use of topics", asked, ask, lambda answers: [use for use in answers.values() if use is not None]
        )

    async def allocation(
        self, topic: str, client_ids: Iterable[str], *, strategy: AllocationStrategy = average
    ) -> Mapping[str, list[MessageQueue]]:
        """How the queues of a topic would be divided among clients."""
        clients = list(client_ids)
        if not clients:
            raise IllegalArgument("no client id is given among which to divide the queues")
        queues = await self.queues(topic)
        return {client: share_of(client, queues, clients, strategy=strategy) for client in clients}

    # -------------------------------------------------------------------------------------------------------- changing

    async def create(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        write_queues: int | None = None,
        permission: str | int = "RW",
        ordered: bool = False,
        unit: bool = False,
        unit_subscription: bool = False,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[BrokerNode]:
        """Make a topic, or replace its settings, on one broker, on a cluster's masters, or on all. Where it is now.

        `ordered` fixes its queues at the name servers, so that messages with one key stay in one queue even while a
        broker is down; `queues` are those of each broker.
        """
        check_topic(topic)
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=_queue_count(queues if read_queues is None else read_queues),
            write_queue_nums=_queue_count(queues if write_queues is None else write_queues),
            perm=permission_bits(permission),
            topic_sys_flag=(UNIT if unit else 0) | (UNIT_SUBSCRIPTION if unit_subscription else 0),
            order=ordered,
        )
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster)
        made = await ask_each_for(f"create topic {topic}", nodes, lambda node: self._put(node, config), list)
        if not ordered:
            return made
        add_order = self._add_order(topic, made, config.write_queue_nums, keep_others=broker is not None)
        return await Steps(f"create topic {topic}").last(add_order, made)

    async def _put(self, node: BrokerNode, config: TopicConfig) -> None:
        header = CreateTopicHeader(
            topic=config.topic_name,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type.value,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
        )
        await self._gateway.ask(node, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def update(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        permission: str | int | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[TopicChange]:
        """Change some settings of a topic on the brokers that have it; what is not given stays as it is on each."""
        changes: dict[str, int] = {}
        if read_queues is not None:
            changes["read_queue_nums"] = _queue_count(read_queues)
        if write_queues is not None:
            changes["write_queue_nums"] = _queue_count(write_queues)
        if permission is not None:
            changes["perm"] = permission_bits(permission)
        if not changes:
            raise IllegalArgument("nothing is given to change: read_queues, write_queues or permission")
        having = await self._gateway.topic_nodes(topic, reach=Reach.MASTERS)
        if broker is not None or cluster is not None:
            chosen = set(await self._gateway.nodes(broker=broker, cluster=cluster))
            nodes = [node for node in having if node in chosen]
            if not nodes:
                raise NotFound(
                    f"topic {topic} is not on {broker or cluster}, but on {', '.join(map(str, having))}: "
                    "create it there, or leave out where to change it"
                )
        else:
            nodes = having

        async def change(node: BrokerNode) -> TopicChange:
            before = (await self._configs(node)).get(topic)
            if before is None:
                raise NotFound(f"{node} does not have topic {topic}")
            after = replace(before, **changes)
            await self._put(node, after)
            return TopicChange(node=node, before=before, after=after)

        return await ask_each_for(f"change topic {topic}", nodes, change, lambda done: list(done.values()))

    async def delete(self, topic: str, *, cluster: str | None = None) -> list[BrokerNode]:
        """Delete a topic with its messages from the brokers of a cluster, or of all clusters that have it, and from the
        name servers. Where it was."""
        check_topic(topic)
        if cluster is None:
            nodes = await self._gateway.topic_nodes(topic, reach=Reach.MASTERS)
        else:
            nodes = await self._gateway.nodes(cluster=cluster)
        return await self.delete_at(topic, nodes, cluster=cluster)

    async def delete_at(
        self, topic: str, nodes: Iterable[BrokerNode], *, cluster: str | None = None
    ) -> list[BrokerNode]:
        """The same for brokers that are known; one that does not have the topic is no error."""
        code, header = RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic)
        what = f"delete topic {topic}"
        deleted = await ask_each_for(what, nodes, lambda node: self._gateway.ask(node, code, header), list)
        at_name_servers = DeleteTopicInNamesrvHeader(topic, cluster)
        tell = self._gateway.tell_name_servers(what, RequestCode.DELETE_TOPIC_IN_NAMESRV, at_name_servers)
        return await Steps(what).last(tell, deleted)

    # ----------------------------------------------------------------------------------------------------------- order

    async def order(self, topic: str) -> str | None:
        """The queues that an ordered topic has for ever, as Apache's tools write it: `broker-a:4;broker-b:4`."""
        return await self._key_values.find(ORDER_NAMESPACE, topic)

    async def set_order(self, topic: str, order: str) -> None:
        """Fix the queues of an ordered topic: `broker-a:4;broker-b:4`."""
        for part in order.split(";"):
            name, _, count = part.rpartition(":")
            if not name or not count.isdecimal():
                raise IllegalArgument(f"{part!r} is not a broker and its number of queues, as in broker-a:4")
        await self._key_values.put(ORDER_NAMESPACE, topic, order)

    async def delete_order(self, topic: str) -> None:
        """Let an ordered topic have the queues that its brokers have now."""
        await self._key_values.delete(ORDER_NAMESPACE, topic)

    async def _add_order(self, topic: str, nodes: Iterable[BrokerNode], count: int, *, keep_others: bool) -> None:
        before = await self.order(topic) if keep_others else None
        counts = dict(part.rpartition(":")[::2] for part in (before or "").split(";") if part)
        counts.update((node.broker_name, str(count)) for node in nodes)
        await self.set_order(topic, ";".join(f"{name}:{queues}" for name, queues in counts.items()))


def _queue_count(count: int) -> int:
    if not isinstance(count, int) or not 1 <= count < 2**16:
        raise IllegalArgument(f"{count!r} queues: a topic has 1 to {2**16 - 1} on each broker")
    return count


def _is_internal(name: str, of_servers: frozenset[str]) -> bool:
    return is_retry_topic(name) or is_dlq_topic(name) or is_system_topic(name, of_servers)


def _stats(topic: str, answers: Iterable[bodies_admin.TopicStats]) -> TopicStats:
    rows = [
        QueueStats(
            queue=queue,
            min_offset=bounds.min_offset,
            max_offset=bounds.max_offset,
            last_stored_at=moment_of(bounds.last_update_timestamp),
        )
        for answer in answers
        for queue, bounds in answer.offset_table.items()
    ]
    return TopicStats(topic=topic, queues=tuple(sorted(rows, key=lambda row: row.queue)))
