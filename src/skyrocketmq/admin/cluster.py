"""Clusters: which brokers there are, how they are doing, and whether producers may write to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skyrocketmq.admin.fan_out import ask_each
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.nodes import BrokerNode, Reach
from skyrocketmq.admin.runtime import BrokerRuntime, read_runtime
from skyrocketmq.errors import MQError
from skyrocketmq.wire.bodies_tables import KvTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_namesrv import AddWritePermAnswer, BrokerNameHeader, WipeWritePermAnswer

__all__ = ["BrokerState", "ClusterAdmin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker process and its figures; where it did not answer, what went wrong instead."""

    node: BrokerNode
    runtime: BrokerRuntime | None
    failure: MQError | None = None


class ClusterAdmin:
    """`admin.cluster`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def nodes(self, *, cluster: str | None = None) -> list[BrokerNode]:
        """All broker processes that are registered, masters and slaves; of one cluster, or of all."""
        return await self._gateway.nodes(cluster=cluster, reach=Reach.ALL)

    async def clusters(self) -> Mapping[str, list[BrokerNode]]:
        """The broker processes by cluster."""
        by_cluster: dict[str, list[BrokerNode]] = {}
        for node in await self.nodes():
            by_cluster.setdefault(node.cluster, []).append(node)
        return by_cluster

    async def overview(self, *, cluster: str | None = None) -> list[BrokerState]:
        """Every broker process with its figures. One that does not answer is in the list too, with its failure."""
        nodes = await self.nodes(cluster=cluster)

        async def look(node: BrokerNode) -> BrokerState:
            try:
                table = await self._gateway.ask_for(KvTable, node, RequestCode.GET_BROKER_RUNTIME_INFO)
            except MQError as error:
                return BrokerState(node=node, runtime=None, failure=error)
            return BrokerState(node=node, runtime=read_runtime(table.table))

        return list((await ask_each("the figures of the brokers", nodes, look)).values())

    async def wipe_write_permission(self, broker: str) -> Mapping[str, int]:
        """Have producers leave a broker: the name servers take the permission to write from all its topics.

        How many topics that were, by name server. It holds until the broker registers anew with changed topics: make
        the broker itself read-only (`brokers.update_config({"brokerPermission": "4"}, broker=...)`) to have it last.
        """
        name = (await self._gateway.node(broker)).broker_name
        return await self._gateway.ask_every_name_server(
            f"take the write permission of {name}",
            RequestCode.WIPE_WRITE_PERM_OF_BROKER,
            BrokerNameHeader(name),
            read=lambda answer: decode_header(WipeWritePermAnswer, answer.ext).wipe_topic_count or 0,
        )

    async def add_write_permission(self, broker: str) -> Mapping[str, int]:
        """Give the permission back: all topics of the broker can be written and read. How many, by name server."""
        name = (await self._gateway.node(broker)).broker_name
        return await self._gateway.ask_every_name_server(
            f"give the write permission back to {name}",
            RequestCode.ADD_WRITE_PERM_OF_BROKER,
            BrokerNameHeader(name),
            read=lambda answer: decode_header(AddWritePermAnswer, answer.ext).add_topic_count or 0,
        )
