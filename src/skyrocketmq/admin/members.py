"""The members of a group: who is connected, what each subscribes to and holds, and what is wrong with them.

Members are known to the brokers that they are connected to; what they do, only they can tell, and the broker passes the
question on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from skyrocketmq.admin.fan_out import Steps, ask_each, ask_each_for
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.group_values import ClientInfo, GroupConnections, GroupFinding
from skyrocketmq.admin.nodes import BrokerNode, Reach
from skyrocketmq.errors import ConsumerNotOnline, NoRoute, NotFound, SystemFailure
from skyrocketmq.model import MessageQueue, SubscriptionData, SubscriptionGroupConfig
from skyrocketmq.model.names import retry_topic
from skyrocketmq.wire.bodies_admin import ClientConnection, ConsumerConnections, ProducerConnections
from skyrocketmq.wire.bodies_clients import ConsumerRunningInfo, ConsumerStatus
from skyrocketmq.wire.bodies_tables import SubscriptionGroupTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_admin import ProducerGroupHeader
from skyrocketmq.wire.headers_clients import ConsumerGroupHeader, ConsumerRunningInfoHeader, ConsumerStatusHeader
from skyrocketmq.wire.versions import version_name

__all__ = ["GroupMembers"]

Value = TypeVar("Value")

STUCK_MS: Final = 60_000  # messages in memory and none consumed for so long


class GroupMembers:
    """The half of `admin.groups` that is about members."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def nodes(self, group: str) -> list[BrokerNode]:
        """The brokers that know a group. Raises `NotFound`."""
        try:
            return await self._gateway.topic_nodes(retry_topic(group))
        except NoRoute:
            steps = Steps(f"the brokers of group {group}")
            return list(await steps.need(self.config(group)))  # made by hand, and nobody has come yet

    async def configs(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Mapping[BrokerNode, Mapping[str, SubscriptionGroupConfig]]:
        """All groups as each broker has them, the system's too."""
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster, reach=Reach.READABLE)

        async def ask(node: BrokerNode) -> Mapping[str, SubscriptionGroupConfig]:
            code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            return (await self._gateway.ask_for(SubscriptionGroupTable, node, code)).subscription_group_table

        return await ask_each_for("the groups of brokers", nodes, ask, dict)

    async def config(self, group: str) -> Mapping[BrokerNode, SubscriptionGroupConfig]:
        """The settings of a group on each broker that has it. Raises `NotFound`."""
        steps = Steps(f"the settings of group {group}")
        tables = await steps.take(self.configs())
        found = steps.done({node: table[group] for node, table in tables.items() if group in table})
        if not found:
            raise NotFound(
                f"there is no consumer group {group}: asked {', '.join(map(str, tables))}. A group appears with its "
                "first member, where autoCreateSubscriptionGroup is on; or make it with groups.create"
            )
        return found

    # --------------------------------------------------------------------------------------------------------- members

    async def connections(self, group: str) -> GroupConnections:
        """Who is connected for a group, and what they subscribe to."""

        async def ask(node: BrokerNode) -> ConsumerConnections:
            code, header = RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(group)
            try:
                return await self._gateway.ask_for(ConsumerConnections, node, code, header)
            except ConsumerNotOnline:
                return ConsumerConnections()

        nodes = await self.nodes(group)
        what = f"the members of group {group}"
        return await ask_each_for(what, nodes, ask, lambda found: _connections(group, found))

    async def subscriptions(self, group: str) -> list[SubscriptionData]:
        """What the members of a group subscribe to now; empty while nobody is connected."""
        steps = Steps(f"the subscriptions of group {group}")
        return steps.done(list((await steps.take(self.connections(group))).subscriptions))

    async def producers(self, group: str, topic: str) -> list[ClientInfo]:
        """Who is connected for a producer group, at the brokers of a topic."""

        async def ask(node: BrokerNode) -> tuple[ClientConnection, ...]:
            code, header = RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader(group)
            try:
                return (await self._gateway.ask_for(ProducerConnections, node, code, header)).connection_set
            except SystemFailure:
                return ()  # this is how a broker says that it has none

        nodes = await self._gateway.topic_nodes(topic)
        return await ask_each_for(f"the producers of group {group}", nodes, ask, _clients)

    async def running_info(self, group: str, client_id: str, *, stacks: bool = False) -> ConsumerRunningInfo:
        """How one member is doing: its settings, the queues it holds, its rates; `stacks` with what its threads do."""
        node = (await self._member(group, client_id)).nodes[0]
        code, header = RequestCode.GET_CONSUMER_RUNNING_INFO, ConsumerRunningInfoHeader(group, client_id, stacks)
        timeout_s = self._gateway.slow_timeout_s
        return await self._gateway.ask_for(ConsumerRunningInfo, node, code, header, timeout_s=timeout_s)

    async def _member(self, group: str, client_id: str) -> ClientInfo:
        steps = Steps(f"the member {client_id} of group {group}")
        members = (await steps.take(self.connections(group))).members
        for member in members:
            if member.client_id == client_id:
                return member
        steps.done(None)
        known = ", ".join(member.client_id for member in members) or "nobody"
        raise NotFound(f"group {group} has no member {client_id}: connected now is {known}")

    async def member_offsets(
        self, group: str, topic: str, *, client_id: str | None = None
    ) -> Mapping[str, Mapping[MessageQueue, int]]:
        """How far each member is in the queues of a topic that it holds, by its own account; by client id."""
        nodes = await self._gateway.topic_nodes(topic)
        code, header = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ConsumerStatusHeader(topic, group, client_id)

        async def ask(node: BrokerNode) -> Mapping[str, Mapping[MessageQueue, int]]:
            timeout_s = self._gateway.slow_timeout_s
            return (await self._gateway.ask_for(ConsumerStatus, node, code, header, timeout_s=timeout_s)).consumer_table

        return await ask_each_for(f"the offsets of the members of group {group}", nodes, ask, _merged)

    async def diagnose(self, group: str) -> list[GroupFinding]:
        """What is wrong with a group: members that subscribe to different things, members that are stuck."""
        steps = Steps(f"the state of group {group}")
        clients = [member.client_id for member in (await steps.take(self.connections(group))).members]
        infos = await steps.take(
            ask_each(f"the members of group {group}", clients, lambda one: self.running_info(group, one))
        )
        now_ms = self._gateway.instance.clock.now_ms()
        return steps.done([*_different_subscriptions(infos), *_stuck_queues(infos, now_ms=now_ms)])


def _clients(found: Mapping[BrokerNode, Iterable[ClientConnection]]) -> list[ClientInfo]:
    nodes_of: dict[str, list[BrokerNode]] = {}
    seen: dict[str, ClientConnection] = {}
    for node, clients in found.items():
        for client in clients:
            client_id = client.client_id or ""
            seen[client_id] = client
            nodes_of.setdefault(client_id, []).append(node)
    return [
        ClientInfo(
            client_id=client_id,
            address=(client.client_addr or "").removeprefix("/"),
            language=client.language or "",
            version=version_name(client.version),
            nodes=tuple(nodes_of[client_id]),
        )
        for client_id, client in sorted(seen.items())
    ]


def _connections(group: str, found: Mapping[BrokerNode, ConsumerConnections]) -> GroupConnections:
    subscriptions: dict[str, SubscriptionData] = {}
    for connections in found.values():
        subscriptions.update(connections.subscription_table)
    return GroupConnections(
        group=group,
        members=tuple(_clients({node: one.connection_set for node, one in found.items()})),
        subscriptions=tuple(subscriptions[topic] for topic in sorted(subscriptions)),
        consume_type=_first(found.values(), lambda one: one.consume_type),
        message_model=_first(found.values(), lambda one: one.message_model),
        consume_from=_first(found.values(), lambda one: one.consume_from_where),
    )


def _first(found: Iterable[ConsumerConnections], read: Callable[[ConsumerConnections], Value | None]) -> Value | None:
    return next((value for one in found if (value := read(one)) is not None), None)


def _merged(
    found: Mapping[BrokerNode, Mapping[str, Mapping[MessageQueue, int]]],
) -> Mapping[str, Mapping[MessageQueue, int]]:
    merged: dict[str, dict[MessageQueue, int]] = {}
    for table in found.values():
        for client_id, offsets in table.items():
            merged.setdefault(client_id, {}).update(offsets)
    return merged


def _different_subscriptions(infos: Mapping[str, ConsumerRunningInfo]) -> list[GroupFinding]:
    """A broker keeps one subscription of a group: where members differ, messages are lost to some of them."""
    said = {
        client_id: {(one.topic, one.sub_string) for one in info.subscription_set} for client_id, info in infos.items()
    }
    first = next(iter(said.values()), set())
    return [
        GroupFinding(
            client_id=client_id,
            text=f"subscribes to {_listed(subscriptions - first) or 'nothing else'} and not to "
            f"{_listed(first - subscriptions) or 'anything else'}, unlike {next(iter(said))}: members of a group must "
            "subscribe to the same, or messages are lost to some",
        )
        for client_id, subscriptions in said.items()
        if subscriptions != first
    ]


def _listed(subscriptions: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{topic} ({expression})" for topic, expression in sorted(subscriptions))


def _stuck_queues(infos: Mapping[str, ConsumerRunningInfo], *, now_ms: int) -> list[GroupFinding]:
    return [
        GroupFinding(
            client_id=client_id,
            text=f"has {queue_info.cached_msg_count} messages of {queue} and has consumed none for "
            f"{(now_ms - queue_info.last_consume_timestamp) // 1000} s: look at what its handler waits for",
        )
        for client_id, info in infos.items()
        for queue, queue_info in info.mq_table.items()
        if queue_info.cached_msg_count
        and queue_info.last_consume_timestamp
        and now_ms - queue_info.last_consume_timestamp > STUCK_MS
    ]
