"""Peers that answer as a test tells them: a name server that knows what it is told, brokers with answers made up.

async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
    scripted.brokers["broker-a"].on(RequestCode.SEND_MESSAGE_V2, refuse(2, "[OVERLOAD]"))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from skyrocketmq.errors import broker_error
from skyrocketmq.model import BrokerData, HeartbeatData, QueueData, TopicRoute
from skyrocketmq.net import Connection, Dispatcher, Server, ServerOptions, pack_address, parse_address
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import ConsumerIdList
from skyrocketmq.wire.bodies_routes import encode_route
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.records import encode_record

__all__ = ["Scripted", "ScriptedBroker", "ScriptedNameServer", "open_scripted", "place", "refuse", "stored"]

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

    def frames(self, code: RequestCode) -> list[Frame]:
        return [frame for frame in self.received if frame.code == code]

    def count(self, code: RequestCode) -> int:
        return len(self.frames(code))


class ScriptedBroker(_Peer):
    """Hears heartbeats, says that it has stored what it is sent, and gives out `records`, whatever queue is asked for.

    `offset` is what it has stored for every group and queue; None if nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records: list[bytes] = []
        self.offset: int | None = 0
        self.client_ids: list[str] = []
        self.on(RequestCode.HEART_BEAT, self._heartbeat)
        self.on(RequestCode.UNREGISTER_CLIENT, lambda frame: frame.reply())
        self.on(RequestCode.SEND_MESSAGE_V2, stored)
        self.on(RequestCode.SEND_BATCH_MESSAGE, stored)
        self.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self._list)
        self.on(RequestCode.QUERY_CONSUMER_OFFSET, self._find_offset)
        self.on(RequestCode.UPDATE_CONSUMER_OFFSET, self._keep_offset)
        self.on(RequestCode.GET_MAX_OFFSET, lambda frame: frame.reply(ext={"offset": str(len(self.records))}))
        self.on(RequestCode.PULL_MESSAGE, self.pull)

    def add_messages(self, *bodies: bytes, topic: str = "T", tags: bytes = b"A") -> None:
        """Have messages in the queue; a held pull does not hear of it."""
        for body in bodies:
            self.records.append(
                encode_record(
                    topic=topic.encode(),
                    body=body,
                    properties=b"UNIQ_KEY\x01id-%d\x02TAGS\x01%b" % (len(self.records), tags),
                    queue_id=0,
                    queue_offset=len(self.records),
                    log_offset=1000 * len(self.records),
                    born_timestamp=1,
                    born_host=bytes(8),
                    store_timestamp=2,
                    store_host=pack_address(parse_address(self.address)),
                )
            )

    def heartbeats(self) -> list[HeartbeatData]:
        """What clients have said about themselves."""
        return [decode_body(HeartbeatData, frame.body) for frame in self.frames(RequestCode.HEART_BEAT)]

    def _heartbeat(self, frame: Frame) -> Frame:
        client_id = decode_body(HeartbeatData, frame.body).client_id
        if client_id not in self.client_ids:
            self.client_ids.append(client_id)
        return frame.reply()

    def _list(self, frame: Frame) -> Frame:
        return frame.reply(body=encode_body(ConsumerIdList(consumer_id_list=tuple(self.client_ids))))

    def _find_offset(self, frame: Frame) -> Frame:
        if self.offset is None:
            return frame.reply(ResponseCode.QUERY_NOT_FOUND)
        return frame.reply(ext={"offset": str(self.offset)})

    def _keep_offset(self, frame: Frame) -> Frame:
        assert frame.ext is not None
        self.offset = int(frame.ext["commitOffset"] or 0)
        return frame.reply()

    def pull(self, frame: Frame) -> Frame | Awaitable[Frame | None]:
        """Messages from the offset on; without any the request is held, for good."""
        assert frame.ext is not None
        offset = int(frame.ext["queueOffset"] or 0)
        found = self.records[offset : offset + 32]
        if not found:
            return _never()
        return frame.reply(ext=place(offset + len(found), len(self.records)), body=b"".join(found))


def place(following: int, end: int, *, broker_id: int = 0) -> dict[str, str | None]:
    """The fields of a pull's answer."""
    return {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": str(following),
        "minOffset": "0",
        "maxOffset": str(end),
    }


async def _never() -> Frame | None:
    await asyncio.Event().wait()
    return None


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
        options = ServerOptions(grace_s=0)
        for peer in (*scripted.name_servers, *scripted.brokers.values()):
            server = await Server.start(("127.0.0.1", 0), peer.dispatcher.feed, options=options)
            peer.server = await opened.enter_async_context(server)
        yield scripted
