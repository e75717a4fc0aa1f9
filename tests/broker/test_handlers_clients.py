"""Heartbeats and lists, asked for over real connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from skyrocketmq.broker.clients import ConsumerTable, ProducerTable
from skyrocketmq.broker.consumer_filters import ConsumerFilters
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.handlers_clients import SCAN_INTERVAL_S, SILENCE_S_MAX, ClientHandlers
from skyrocketmq.broker.notices import DELAY_S, ChangeNotices
from skyrocketmq.broker.requests import REQUESTS
from skyrocketmq.broker.subscription_differences import SubscriptionDifferences
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.filters.bloom import BloomFilter
from skyrocketmq.model import SubscriptionGroupConfig, TopicConfig
from skyrocketmq.net import BodyRequest, Client, Connection, Dispatcher, Server, register_answers
from skyrocketmq.net.slices import InOrder
from skyrocketmq.slices import SLICE_S
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.headers_codec import NoFields
from tests.broker.support import holder, until


class Peer:
    """A client of the broker: asks, and keeps what it is told."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.notices: list[str | None] = []
        dispatcher = Dispatcher()
        dispatcher.register(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._notified)
        self.client = Client(dispatcher)

    def _notified(self, frame: Frame, connection: Connection) -> None:
        assert frame.is_oneway
        self.notices.append((frame.ext or {}).get("consumerGroup"))

    async def ask(
        self, code: int, ext: dict[str, str | None] | None = None, *, body: object = None, **more: Any
    ) -> Frame:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.request(self.address, Frame(code, ext=ext, body=data, **more), 5)

    async def beat(
        self, client_id: str, *, consumers: tuple[object, ...] = (), producers: tuple[str, ...] = (), **more: Any
    ) -> Frame:
        body = {
            "clientID": client_id,
            "consumerDataSet": list(consumers),
            "producerDataSet": [{"groupName": group} for group in producers],
        }
        return await self.ask(RequestCode.HEART_BEAT, body=body, **more)


def consumer(group: str = "g", *topics: str, version: int = 1, unit_mode: bool = False) -> dict[str, object]:
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "unitMode": unit_mode,
        "subscriptionDataSet": [
            {
                "classFilterMode": False,
                "codeSet": [2598919],
                "expressionType": "TAG",
                "subString": "TagA",
                "subVersion": version,
                "tagsSet": ["TagA"],
                "topic": topic,
            }
            for topic in topics or ("orders",)
        ],
    }


class Broker:
    """As much of a broker as knows its clients."""

    def __init__(self, clock: ManualClock | None = None, **config: Any) -> None:
        self.clock = clock or ManualClock()
        self.config = holder(self.clock, **config)
        self.topics = TopicTable(self.config, self.clock)
        self.groups = GroupTable(self.config, self.clock)
        self.consumers: ConsumerTable[Connection] = ConsumerTable()
        self.producers: ProducerTable[Connection] = ProducerTable()
        self.filters = ConsumerFilters(BloomFilter(error_percent=20, subscriber_count=32))
        self.notices = ChangeNotices(self.consumers.members_of, clock=self.clock)
        self.differences: SubscriptionDifferences[Connection] = SubscriptionDifferences()
        self.handlers = ClientHandlers(
            config=self.config,
            topics=self.topics,
            groups=self.groups,
            consumers=self.consumers,
            filters=self.filters,
            producers=self.producers,
            differences=self.differences,
            notices=self.notices,
            clock=self.clock,
        )
        self._peers: list[Peer] = []
        self._server: Server

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Broker]:
        dispatcher = Dispatcher()
        register_answers(dispatcher, self.handlers)
        async with await Server.start(
            ("127.0.0.1", 0), dispatcher, on_close=self.handlers.connection_closed
        ) as self._server:
            yield self
            for peer in self._peers:
                await peer.client.close()
        self.notices.close()

    def peer(self) -> Peer:
        peer = Peer(f"127.0.0.1:{self._server.port}")
        self._peers.append(peer)
        return peer

    async def let_notices_out(self) -> None:
        await self.clock.advance(DELAY_S)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker().running() as running:
        yield running


async def test_a_heartbeat_makes_the_group_and_its_retry_topic_known(broker: Broker) -> None:
    answer = await broker.peer().beat("c1", consumers=(consumer("g", unit_mode=True),))
    assert (answer.code, answer.body) == (0, b"")
    assert broker.groups.find("g") == SubscriptionGroupConfig(group_name="g")
    assert broker.topics.find("%RETRY%g") == TopicConfig("%RETRY%g", 1, 1, 6, topic_sys_flag=2)
    subscription = broker.consumers.find_subscription("g", "orders")
    assert subscription is not None
    assert subscription.code_set == {2598919}


async def test_the_retry_topic_has_as_many_queues_as_the_group_says(broker: Broker) -> None:
    broker.groups.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=3))
    await broker.peer().beat("c1", consumers=(consumer("g"),))
    found = broker.topics.find("%RETRY%g")
    assert found is not None
    assert found.write_queue_nums == 3


async def test_a_group_that_may_not_be_made_is_still_connected() -> None:
    async with Broker(auto_create_group=False).running() as broker:
        await broker.peer().beat("c1", consumers=(consumer("g"),))
        assert broker.groups.find("g") is None
        assert broker.topics.find("%RETRY%g") is None
        assert broker.consumers.find("g") is not None


async def test_a_group_whose_name_is_too_long_for_a_retry_topic_has_none(broker: Broker) -> None:
    group = "g" * 125
    assert (await broker.peer().beat("c1", consumers=(consumer(group),))).code == 0
    assert broker.groups.find(group) is not None
    assert broker.topics.find("%RETRY%" + group) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b'{"consumerDataSet":[],"producerDataSet":[]}',
    ],
)
async def test_a_heartbeat_that_cannot_be_read_is_refused_with_a_reason(broker: Broker, body: bytes) -> None:
    peer = broker.peer()
    answer = await peer.ask(RequestCode.HEART_BEAT, body=body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark
    assert (await peer.beat("c1")).code == 0


async def test_a_heartbeat_of_a_client_that_writes_null_for_nothing_is_understood(broker: Broker) -> None:
    body = b'{"clientID":"c","consumerDataSet":null,"producerDataSet":[{"groupName":"p"}]}'
    assert (await broker.peer().ask(RequestCode.HEART_BEAT, body=body)).code == 0
    assert broker.producers.groups() == ["p"]


async def test_all_members_of_a_group_are_notified_of_a_new_one(broker: Broker) -> None:
    first, second = broker.peer(), broker.peer()
    await first.beat("c1", consumers=(consumer(),))
    await broker.let_notices_out()
    await until(lambda: first.notices == ["g"])
    await second.beat("c2", consumers=(consumer(),))
    await broker.let_notices_out()
    await until(lambda: first.notices == ["g", "g"] and second.notices == ["g"])
    await second.beat("c2", consumers=(consumer(version=2),))
    await broker.let_notices_out()
    assert broker.clock.timer_count == 0


async def test_members_are_notified_when_one_says_good_bye_or_is_cut_off(broker: Broker) -> None:
    stays, leaves, dies = broker.peer(), broker.peer(), broker.peer()
    for number, peer in enumerate((stays, leaves, dies)):
        await peer.beat(f"c{number}", consumers=(consumer(),), producers=("p",))
    await broker.let_notices_out()
    await until(lambda: stays.notices == ["g"])
    await leaves.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "g", "producerGroup": "p"})
    await broker.let_notices_out()
    await until(lambda: stays.notices == ["g"] * 2)
    await dies.client.close()
    await until(lambda: broker.consumers.client_ids_of("g") == ["c0"])
    await broker.let_notices_out()
    await until(lambda: stays.notices == ["g"] * 3)
    assert [member.client_id for member in broker.producers.members_of("p")] == ["c0"]


async def test_no_notice_is_sent_where_the_group_or_the_broker_does_not_want_it(broker: Broker) -> None:
    broker.groups.put(SubscriptionGroupConfig(group_name="quiet", notify_consumer_ids_changed_enable=False))
    peer = broker.peer()
    await peer.beat("c1", consumers=(consumer("quiet"),))
    assert broker.clock.timer_count == 0
    await broker.config.update({"notifyConsumerIdsChangedEnable": "false"})
    await peer.beat("c1", consumers=(consumer("quiet"), consumer("loud")))
    assert broker.clock.timer_count == 0


async def test_a_client_that_stops_beating_is_cut_off_and_the_others_are_notified(broker: Broker) -> None:
    lively, silent = broker.peer(), broker.peer()
    await silent.beat("silent", consumers=(consumer(),), producers=("p",))
    for _ in range(int(SILENCE_S_MAX / SCAN_INTERVAL_S)):
        await lively.beat("lively", consumers=(consumer(),))
        await broker.clock.advance(SCAN_INTERVAL_S)
        broker.handlers.expire_silent()
    assert broker.consumers.client_ids_of("g") == ["silent", "lively"]
    await lively.beat("lively", consumers=(consumer(),))
    lively.notices.clear()
    await broker.clock.advance(SCAN_INTERVAL_S)
    broker.handlers.expire_silent()
    assert broker.consumers.client_ids_of("g") == ["lively"]
    assert broker.producers.groups() == []
    await until(lambda: silent.client.find(silent.address) is None)
    await broker.let_notices_out()
    await until(lambda: "g" in lively.notices)


class SlowClock(ManualClock):
    """A clock of a machine on which every step takes a whole slice of time."""

    def monotonic(self) -> float:
        self._now += SLICE_S
        return self._now


class Caller:
    """What handlers look at of a connection."""

    peer = "10.0.0.9:1"
    is_closed = False


def many_groups(client_id: str = "c", **subscription: object) -> Frame:
    said = [{"topic": topic, "subString": "*"} | subscription for topic in ("orders", "refunds", "returns")]
    groups = [{"groupName": f"g{number}", "subscriptionDataSet": said} for number in range(20)]
    body = {"clientID": client_id, "consumerDataSet": groups, "producerDataSet": [{"groupName": "p"}]}
    return Frame(RequestCode.HEART_BEAT, 1, body=json.dumps(body).encode())


def beat(broker: Broker, frame: Frame, connection: Connection) -> object:
    return broker.handlers.heartbeat(BodyRequest(REQUESTS[RequestCode.HEART_BEAT], NoFields(), frame, connection))


async def test_a_connection_in_many_groups_leaves_them_in_slices() -> None:
    broker, caller = Broker(SlowClock()), cast("Connection", Caller())
    assert isinstance(reply := beat(broker, many_groups(), caller), InOrder)
    assert (await reply).code == 0
    assert len(broker.consumers.groups()) == 20
    broker.handlers.connection_closed(caller)
    assert len(broker.consumers.groups()) >= 18, "others have their turn"
    for _ in range(5):
        await broker.clock.settle()
    assert (broker.consumers.groups(), broker.producers.groups()) == ([], [])
    broker.handlers.close()
    broker.notices.close()


@pytest.mark.parametrize("is_after", range(1, 6))
async def test_of_a_client_that_goes_during_its_heartbeat_nothing_stays(is_after: int) -> None:
    broker, caller = Broker(SlowClock(), sql_filter_enable=True), Caller()
    connection = cast("Connection", caller)
    frame = many_groups(subString="a = 1", expressionType="SQL92", subVersion=1)
    reply = beat(broker, frame, connection)
    assert isinstance(reply, InOrder)
    answer = asyncio.ensure_future(reply)
    for _ in range(is_after):
        await asyncio.sleep(0)
    assert not answer.done()
    caller.is_closed = True
    broker.handlers.connection_closed(connection)
    await answer
    for _ in range(5):
        await broker.clock.settle()
    assert (broker.consumers.groups(), broker.producers.groups()) == ([], [])
    assert all(each.is_dead for topic in ("orders", "refunds", "returns") for each in broker.filters.on(topic))
    another = beat(broker, many_groups("another"), cast("Connection", Caller()))
    assert (await cast("InOrder", another)).code == 0
    assert broker.differences.all() == [], "nobody is left to differ from"
    broker.handlers.close()
    broker.notices.close()


async def test_the_members_of_a_group_are_listed(broker: Broker) -> None:
    peer = broker.peer()
    await peer.beat("c1", consumers=(consumer(),))
    answer = await peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert (answer.code, answer.body) == (0, b'{"consumerIdList":["c1"]}')


@pytest.mark.parametrize(
    ("code", "field", "expected"),
    [
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, "consumerGroup", ResponseCode.SYSTEM_ERROR),
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, "consumerGroup", ResponseCode.CONSUMER_NOT_ONLINE),
        (RequestCode.GET_PRODUCER_CONNECTION_LIST, "producerGroup", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_group_without_members_is_an_error_that_names_it(
    broker: Broker, code: int, field: str, expected: int
) -> None:
    answer = await broker.peer().ask(code, {field: "nobody"})
    assert answer.code == expected
    assert "nobody" in (answer.remark or "")
    missing = await broker.peer().ask(code)
    assert missing.code == ResponseCode.SYSTEM_ERROR
    assert field in (missing.remark or "")


async def test_consumers_are_described_with_their_subscriptions(broker: Broker) -> None:
    peer = broker.peer()
    await peer.beat("c1", consumers=(consumer(),), language=0, version=399)
    answer = await peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"}, encoding=Encoding.BINARY)
    found = json.loads(answer.body)
    (connection,) = found.pop("connectionSet")
    assert connection.pop("clientAddr").startswith("127.0.0.1:")
    assert connection == {"clientId": "c1", "language": "JAVA", "version": 399}
    assert found.pop("subscriptionTable")["orders"]["subString"] == "TagA"
    assert found == {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
    }


async def test_producers_are_listed_by_group_and_all_together(broker: Broker) -> None:
    peer = broker.peer()
    await peer.beat("c1", producers=("p1", "p2"), language=None)
    answer = await peer.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p1"})
    (connection,) = json.loads(answer.body)["connectionSet"]
    assert (connection["clientId"], connection["version"]) == ("c1", 407)
    everybody = json.loads((await peer.ask(RequestCode.GET_ALL_PRODUCER_INFO)).body)["data"]
    assert set(everybody) == {"p1", "p2"}
    (info,) = everybody["p1"]
    assert info["remoteIP"] == "/" + connection["clientAddr"]
    assert info["lastUpdateTimestamp"] == broker.clock.now_ms()
    assert broker.producers.find_connection("c1") is not None


@pytest.mark.parametrize(("kind", "code"), [("TAG", 0), ("", 0), (None, 0), ("SQL92", ResponseCode.SYSTEM_ERROR)])
async def test_only_expressions_that_the_broker_can_filter_by_pass_its_check(
    broker: Broker, kind: str | None, code: int
) -> None:
    body = {"clientId": "c", "group": "g", "subscriptionData": {"topic": "orders", "expressionType": kind}}
    answer = await broker.peer().ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    assert answer.code == code
    if code:
        assert "SQL92" in (answer.remark or "")
