"""Peers that answer as a test tells them: a name server that knows what it is told, brokers with answers made up.

async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
    scripted.brokers["broker-a"].on(RequestCode.SEND_MESSAGE_V2, refuse(2, "[OVERLOAD]"))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from skyrocketmq.errors import broker_error
from skyrocketmq.model import BrokerData, QueueData, TopicRoute
from skyrocketmq.net import Connection, Dispatcher, Server
from skyrocketmq.wire.bodies_routes import encode_route
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame

__all__ = ["Scripted", "ScriptedBroker", "ScriptedNameServer", "open_scripted", "refuse", "stored"]

Answer = Callable[[Frame], Frame | Awaitable[Frame | None] | None]


def refuse(code: int, remark: str = "as the test wants it") -> Answer:
    return lambda frame: frame.reply(code, remark=remark)


def stored(frame: Frame) -> Frame:
    """The answer to a send: everything is stored at offset 5."""
    assert frame.ext is not None
    return frame.reply(ext={"msgId": "0" * 32, "queueId": frame.ext["e"], "queueOffset": "5"})


class _Peer:
    def __init__(self) -> None:
        self.dispatcher = Dispatcher()
        self.received: list[Frame] = []
        self.server: Server

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def on(self, code: RequestCode, answer: Answer) -> None:
        """How requests of this code are answered from now on."""

        def handle(frame: Frame, connection: Connection) -> Frame | Awaitable[Frame | None] | None:
            self.received.append(frame)
            return answer(frame)

        self.dispatcher.register(code, handle)

    def count(self, code: RequestCode) -> int:
        return sum(frame.code == code for frame in self.received)


class ScriptedBroker(_Peer):
    """Hears heartbeats, stores what it is sent, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.on(RequestCode.HEART_BEAT, lambda frame: frame.reply())
        self.on(RequestCode.UNREGISTER_CLIENT, lambda frame: frame.reply())
        self.on(RequestCode.SEND_MESSAGE_V2, stored)
        self.on(RequestCode.SEND_BATCH_MESSAGE, stored)


class ScriptedNameServer(_Peer):
    """Knows the routes that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: dict[str, TopicRoute] = {}
        self.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)

    def _route(self, frame: Frame) -> Frame:
        assert frame.ext is not None
        route = self.routes.get(frame.ext["topic"] or "")
        if route is None:
            raise broker_error(ResponseCode.TOPIC_NOT_EXIST, "not here")
        return frame.reply(body=encode_route(route, standard_json=True))


class Scripted:
    """A name server and brokers."""

    def __init__(self) -> None:
        self.name_servers: list[ScriptedNameServer] = []
        self.brokers: dict[str, ScriptedBroker] = {}

    @property
    def namesrv(self) -> str:
        return ";".join(server.address for server in self.name_servers)

    def add_topic(self, topic: str, *, brokers: Sequence[str] | None = None, queues: int = 1, perm: int = 6) -> None:
        """Let all name servers know a topic, on all brokers or on these."""
        names = list(self.brokers) if brokers is None else brokers
        route = TopicRoute(
            broker_datas=[
                BrokerData(broker_addrs={0: self.brokers[name].address}, broker_name=name, cluster="C")
                for name in names
            ],
            queue_datas=[
                QueueData(broker_name=name, perm=perm, read_queue_nums=queues, write_queue_nums=queues)
                for name in names
            ],
        )
        for server in self.name_servers:
            server.routes[topic] = route


@asynccontextmanager
async def open_scripted(
    *, brokers: Sequence[str] = ("broker-a",), name_server_count: int = 1
) -> AsyncIterator[Scripted]:
    scripted = Scripted()
    async with AsyncExitStack() as opened:
        for _ in range(name_server_count):
            scripted.name_servers.append(ScriptedNameServer())
        for name in brokers:
            scripted.brokers[name] = ScriptedBroker()
        for peer in (*scripted.name_servers, *scripted.brokers.values()):
            peer.server = await opened.enter_async_context(await Server.start(("127.0.0.1", 0), peer.dispatcher.feed))
        yield scripted
