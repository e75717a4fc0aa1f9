"""The way to the servers: one request to a broker, to any name server, or to every name server.

All parts of `Admin` ask through here. Routes and the list of brokers are asked for anew each time: an administrator
wants to see what is, not what was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from skyrocketmq.admin.fan_out import ask_each
from skyrocketmq.admin.nodes import BrokerNode, Reach, choose_nodes, nodes_of
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.errors import ConnectFailed, NetError, NotFound, ProtocolError, broker_error
from skyrocketmq.model import BrokerData, ClusterInfo, MessageQueue, TopicRoute
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_routes import decode_cluster_info
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import Header, encode_header

__all__ = ["Gateway"]

SLOW_FACTOR: Final = 3  # what a broker works long for, or has to ask a client for, may take three times as long

Answer = TypeVar("Answer")
Body = TypeVar("Body", bound=msgspec.Struct)


class Gateway:
    """Requests over the connections of one client instance."""

    def __init__(self, instance: ClientInstance, *, timeout_s: float) -> None:
        self.instance = instance
        self.timeout_s = timeout_s
        self.slow_timeout_s = timeout_s * SLOW_FACTOR

    # --------------------------------------------------------------------------------------------------------- brokers

    async def ask(
        self,
        node: BrokerNode,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
    ) -> Frame:
        """A request to a broker. Raises the `BrokerError` of a refusal, or a `NetError`."""
        if not node.address:
            raise ConnectFailed(f"the broker {node.broker_name} has no master now: start it, or try again later")
        calls = self.instance.calls
        return await calls.ask(calls.address(node.address), code, header, body, timeout_s=timeout_s or self.timeout_s)

    async def ask_for(
        self,
        kind: type[Body],
        node: BrokerNode,
        code: RequestCode,
        header: Header | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Body:
        """A request whose answer has a body of a kind."""
        answer = await self.ask(node, code, header, timeout_s=timeout_s)
        return decode_body(kind, answer.body)

    async def cluster_info(self) -> ClusterInfo:
        """106: all brokers that are registered now."""
        return decode_cluster_info((await self.ask_any_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)).body)

    async def nodes(
        self, *, broker: str | None = None, cluster: str | None = None, reach: Reach = Reach.MASTERS
    ) -> list[BrokerNode]:
        """The processes of one broker, of one cluster, or of all; raises `NotFound`."""
        return choose_nodes(await self.cluster_info(), broker=broker, cluster=cluster, reach=reach)

    async def node(self, broker: str, *, reach: Reach = Reach.READABLE) -> BrokerNode:
        """The process that a name or an address stands for."""
        return (await self.nodes(broker=broker, reach=reach))[0]

    # ---------------------------------------------------------------------------------------------------------- routes

    async def route(self, topic: str) -> TopicRoute:
        """105: where a topic is. Raises `NoRoute`, or `ConnectFailed` if no name server could be asked."""
        routes = self.instance.routes
        await routes.refresh(topic)  # kept there too, for those who look up brokers by name
        route = routes.find(topic)
        assert route is not None, "it was just learnt"
        return route

    async def topic_nodes(self, topic: str, *, reach: Reach = Reach.READABLE) -> list[BrokerNode]:
        """The brokers of a topic."""
        return nodes_of((await self.route(topic)).broker_datas, reach)

    async def queue_node(self, queue: MessageQueue, *, reach: Reach = Reach.READABLE) -> BrokerNode:
        """The broker that has a queue; `NotFound` if the topic has no queues on a broker of that name."""
        brokers: list[BrokerData] = (await self.route(queue.topic)).broker_datas
        named = [broker for broker in brokers if broker.broker_name == queue.broker_name]
        if not named:
            names = ", ".join(sorted(broker.broker_name for broker in brokers)) or "no broker"
            raise NotFound(f"there is no queue {queue}: topic {queue.topic} is on {names}")
        return nodes_of(named, reach)[0]

    # ---------------------------------------------------------------------------------------------------- name servers

    @property
    def name_servers(self) -> tuple[str, ...]:
        return self.instance.name_servers.addresses

    async def ask_name_server(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> Frame:
        """A request to one name server."""
        frame = Frame(code, ext=None if header is None else encode_header(header), body=body)
        answer = await self.instance.net.request(address, frame, self.timeout_s)
        if answer.code:
            raise broker_error(answer.code, answer.remark, address=address)
        return answer

    async def ask_any_name_server(self, code: RequestCode, header: Header | None = None) -> Frame:
        """A request to the first name server that answers, be it a refusal; they all have the same to say."""
        failures: list[str] = []
        for address in self.name_servers:
            try:
                return await self.ask_name_server(address, code, header)
            except (NetError, ProtocolError) as error:
                failures.append(f"{address}: {error}")
        raise ConnectFailed(
            f"no name server could be asked. {'; '.join(failures)}. Is one running there, and is namesrv right?"
        )

    async def ask_every_name_server(
        self,
        what: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        read: Callable[[Frame], Answer],
    ) -> dict[str, Answer]:
        """A request to all name servers, who tell each other nothing. What `read` finds in each
        answer, by address."""

        async def ask(address: str) -> Answer:
            return read(await self.ask_name_server(address, code, header, body))

        return await ask_each(what, sorted(self.name_servers), ask)

    async def tell_name_servers(
        self, what: str, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> None:
        """The same for what has no answer worth reading."""
        await self.ask_every_name_server(what, code, header, body, read=lambda _: None)
