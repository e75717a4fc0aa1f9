"""How much comes in and goes out, by topic and group: the brokers' statistics put together."""

from __future__ import annotations

from skyrocketmq.admin.brokers import BrokerAdmin, Statistic
from skyrocketmq.admin.fan_out import Steps, ask_each, ask_each_for
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.groups import GroupAdmin
from skyrocketmq.admin.nodes import BrokerNode, Reach
from skyrocketmq.admin.topic_values import TopicTraffic
from skyrocketmq.admin.topics import TopicAdmin
from skyrocketmq.errors import NotFound
from skyrocketmq.model.names import is_dlq_topic, is_retry_topic

__all__ = ["TrafficAdmin"]


class TrafficAdmin:
    """`admin.traffic`."""

    def __init__(self, gateway: Gateway, brokers: BrokerAdmin, topics: TopicAdmin, groups: GroupAdmin) -> None:
        self._gateway = gateway
        self._brokers = brokers
        self._topics = topics
        self._groups = groups

    async def all(self, *, active_only: bool = False) -> list[TopicTraffic]:
        """A line for each topic and group that consumes it. `active_only`: of topics with messages in the last day."""
        names = await self._topics.names(internal=True)
        asked = [name for name in names if not is_retry_topic(name) and not is_dlq_topic(name)]
        return await ask_each_for(
            "the traffic of all topics",
            asked,
            self.of,
            lambda found: [row for rows in found.values() for row in rows if row.in_count_24h or not active_only],
        )

    async def of(self, topic: str) -> list[TopicTraffic]:
        """A line for each group that consumes a topic; one without a group where nobody does."""
        nodes = await self._gateway.topic_nodes(topic, reach=Reach.MASTERS)
        steps = Steps(f"the traffic of topic {topic}")
        incoming = await steps.take(self._sum(nodes, "TOPIC_PUT_NUMS", topic))
        groups = await steps.take(self._topics.groups(topic))

        async def look(group: str) -> TopicTraffic:
            of_group = Steps(f"the traffic of group {group}")
            outgoing = await of_group.take(self._sum(nodes, "GROUP_GET_NUMS", f"{topic}@{group}"))
            progress = await of_group.take(self._groups.progress(group, topic=topic))
            return of_group.done(_row(topic, group, progress.lag, incoming, outgoing))

        rows = await steps.take(ask_each(f"the groups of topic {topic}", groups, look))
        return steps.done(list(rows.values()) or [_row(topic, None, 0, incoming, (0.0, 0))])

    async def _sum(self, nodes: list[BrokerNode], name: str, key: str) -> tuple[float, int]:
        """Rate and count of a day, of all brokers."""

        async def ask(node: BrokerNode) -> tuple[float, int]:
            try:
                return _figures(await self._brokers.statistic_at(node, name, key))
            except NotFound:
                return 0.0, 0  # nothing has happened there yet

        return await ask_each_for(
            f"{name} of {key}",
            nodes,
            ask,
            lambda found: (sum(tps for tps, _ in found.values()), sum(count for _, count in found.values())),
        )


def _figures(statistic: Statistic) -> tuple[float, int]:
    # A broker that has not run for a day, or for an hour, has only the shorter sums.
    return statistic.minute.tps, statistic.day.sum or statistic.hour.sum or statistic.minute.sum


def _row(
    topic: str, group: str | None, lag: int, incoming: tuple[float, int], outgoing: tuple[float, int]
) -> TopicTraffic:
    return TopicTraffic(
        topic=topic,
        group=group,
        lag=lag,
        in_tps=incoming[0],
        out_tps=outgoing[0],
        in_count_24h=incoming[1],
        out_count_24h=outgoing[1],
    )
