"""Brokers, one by one: figures, configuration, replicas, statistics, cleaning, and who is connected.

`broker` is a name (`broker-a`, its master) or an address. What changes something takes `broker` or `cluster`; with
neither it is done on all brokers, and the answer says on which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from skyrocketmq.admin.fan_out import ask_each_for
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.moments import moment_of
from skyrocketmq.admin.name_servers import config_body
from skyrocketmq.admin.nodes import BrokerNode, Reach
from skyrocketmq.admin.runtime import BrokerRuntime, read_runtime
from skyrocketmq.config import read_properties
from skyrocketmq.errors import NotFound, ProtocolError, SystemFailure
from skyrocketmq.wire.bodies_admin import BrokerStats, BrokerStatsItem, ProducerTable
from skyrocketmq.wire.bodies_tables import KvTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_admin import BrokerStatsHeader
from skyrocketmq.wire.versions import version_name

__all__ = ["BrokerAdmin", "ProducerClient", "Rate", "Replica", "Statistic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """How far a copy of a broker's log is; a master is its own first copy."""

    node: BrokerNode
    log_max_offset: int
    behind_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A sum over a time, its rate a second, and its average each time."""

    sum: int
    tps: float
    average: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """One of the broker's statistics over the last minute, hour and day."""

    minute: Rate
    hour: Rate
    day: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerClient:
    """A producer that is connected to a broker."""

    group: str
    client_id: str
    address: str
    language: str
    version: str
    last_seen_at: datetime | None


class BrokerAdmin:
    """`admin.brokers`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    # --------------------------------------------------------------------------------------------------------- looking

    async def runtime(self, broker: str) -> BrokerRuntime:
        """The figures of one broker."""
        return await self._runtime(await self._gateway.node(broker))

    async def _runtime(self, node: BrokerNode) -> BrokerRuntime:
        return read_runtime((await self._gateway.ask_for(KvTable, node, RequestCode.GET_BROKER_RUNTIME_INFO)).table)

    async def replicas(self, broker: str) -> list[Replica]:
        """How far the master and the slaves of a broker name are, and by how many bytes each is behind the first."""
        name = (await self._gateway.node(broker)).broker_name or broker
        nodes = await self._gateway.nodes(broker=name, reach=Reach.ALL)
        return await ask_each_for(f"the replicas of {name}", nodes, self._runtime, _replicas)

    async def config(self, broker: str) -> Mapping[str, str]:
        """The configuration of one broker, under Apache's keys."""
        answer = await self._gateway.ask(await self._gateway.node(broker), RequestCode.GET_BROKER_CONFIG)
        return read_properties(answer.body)

    async def statistic(self, name: str, key: str, *, broker: str) -> Statistic:
        """One of a broker's statistics, such as TOPIC_PUT_NUMS of a topic, GROUP_GET_NUMS of topic@group.

        Raises `NotFound` if the broker has nothing under that name and key, which is so until something happens.
        """
        node = await self._gateway.node(broker, reach=Reach.MASTERS)
        return await self.statistic_at(node, name, key)

    async def statistic_at(self, node: BrokerNode, name: str, key: str) -> Statistic:
        """The same for a broker process that is known."""
        header = BrokerStatsHeader(name, key)
        try:
            stats = await self._gateway.ask_for(BrokerStats, node, RequestCode.VIEW_BROKER_STATS_DATA, header)
        except SystemFailure as error:
            raise NotFound(f"{node} has no statistic {name} of {key}: {error.remark}") from error
        return Statistic(minute=_rate(stats.stats_minute), hour=_rate(stats.stats_hour), day=_rate(stats.stats_day))

    async def producers(self, broker: str) -> list[ProducerClient]:
        """All producers that are connected to a broker."""
        node = await self._gateway.node(broker)
        table = await self._gateway.ask_for(ProducerTable, node, RequestCode.GET_ALL_PRODUCER_INFO)
        return [
            ProducerClient(
                group=group,
                client_id=client.client_id or "",
                address=(client.remote_ip or "").removeprefix("/"),
                language=client.language or "",
                version=version_name(client.version),
                last_seen_at=moment_of(client.last_update_timestamp),
            )
            for group, clients in sorted(table.data.items())
            for client in clients
        ]

    # -------------------------------------------------------------------------------------------------------- changing

    async def update_config(
        self, settings: Mapping[str, str], *, broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerNode]:
        """Change keys of the configuration of masters; they keep it in their files. Which brokers those were."""
        body = config_body(settings)
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster)
        code = RequestCode.UPDATE_BROKER_CONFIG
        what = f"change {', '.join(settings)} of brokers"
        return await ask_each_for(what, nodes, lambda node: self._gateway.ask(node, code, body=body), list)

    async def clean_expired_queues(self, *, broker: str | None = None, cluster: str | None = None) -> list[BrokerNode]:
        """Have brokers delete consume queue files whose messages are gone. Which brokers those were."""
        code = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE
        return await self._clean("clean expired queues", code, broker=broker, cluster=cluster)

    async def clean_unused_topics(self, *, broker: str | None = None, cluster: str | None = None) -> list[BrokerNode]:
        """Have brokers delete the queues of topics that they no longer have. Which brokers those were."""
        code = RequestCode.CLEAN_UNUSED_TOPIC
        return await self._clean("clean unused topics", code, broker=broker, cluster=cluster)

    async def delete_expired_log_files(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerNode]:
        """Have brokers delete log files beyond their time now, instead of at their hour. Which brokers those were."""
        code = RequestCode.DELETE_EXPIRED_COMMITLOG
        return await self._clean("delete expired log files", code, broker=broker, cluster=cluster)

    async def _clean(
        self, what: str, code: RequestCode, *, broker: str | None, cluster: str | None
    ) -> list[BrokerNode]:
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster, reach=Reach.ALL)
        timeout_s = self._gateway.slow_timeout_s
        return await ask_each_for(what, nodes, lambda node: self._gateway.ask(node, code, timeout_s=timeout_s), list)


def _replicas(runtimes: Mapping[BrokerNode, BrokerRuntime]) -> list[Replica]:
    ends: dict[BrokerNode, int] = {}
    for node, runtime in runtimes.items():
        if runtime.log_max_offset is None:
            raise ProtocolError(f"{node} does not say how far its log is")
        ends[node] = runtime.log_max_offset
    first = max(ends.values(), default=0)
    return [Replica(node=node, log_max_offset=end, behind_bytes=first - end) for node, end in ends.items()]


def _rate(item: BrokerStatsItem | None) -> Rate:
    item = item or BrokerStatsItem()
    return Rate(sum=item.sum, tps=item.tps, average=item.average)
