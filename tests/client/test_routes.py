from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from skyrocketmq.client.name_servers import NameServers
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.route_rules import (
    is_same_route,
    pull_address,
    readable_queues,
    template_route,
    vip_address,
    writable_queues,
)
from skyrocketmq.client.settings import ClientSettings, SharedOptions, settings_from
from skyrocketmq.errors import ClientError, ConnectFailed, IllegalArgument, NetError, NoRoute
from skyrocketmq.model import BrokerData, Message, MessageQueue, QueueData, TopicRoute
from skyrocketmq.net import Client
from skyrocketmq.ports import Chance, SystemClock, TcpLink
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.codes import RequestCode
from tests.client.cluster import until
from tests.client.scripted import Scripted, open_scripted
from tests.waiting import breathe


def route(*brokers: BrokerData, perm: int = 6, queues: int = 2, order: str | None = None) -> TopicRoute:
    return TopicRoute(
        broker_datas=list(brokers),
        queue_datas=[
            QueueData(broker_name=broker.broker_name, perm=perm, read_queue_nums=queues + 1, write_queue_nums=queues)
            for broker in brokers
        ],
        order_topic_conf=order,
    )


A = BrokerData(broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, broker_name="broker-a", cluster="C")
B = BrokerData(broker_addrs={1: "10.0.0.3:10911"}, broker_name="broker-b", cluster="C")  # its master is gone


class TestRules:
    def test_only_brokers_with_a_master_are_written_to(self) -> None:
        assert writable_queues("T", route(B, A)) == (MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1))

    def test_a_slave_is_enough_for_reading(self) -> None:
        names = [queue.broker_name for queue in readable_queues("T", route(B, A))]
        assert names == ["broker-a"] * 3 + ["broker-b"] * 3

    def test_permissions_decide(self) -> None:
        assert writable_queues("T", route(A, perm=4)) == ()
        assert readable_queues("T", route(A, perm=2)) == ()

    def test_an_ordered_topic_has_the_queues_that_are_set_for_it(self) -> None:
        queues = writable_queues("T", route(A, order="broker-a:1;broker-b:2;"))
        assert [(queue.broker_name, queue.queue_id) for queue in queues] == [
            ("broker-a", 0),
            ("broker-b", 0),
            ("broker-b", 1),
        ]

    def test_a_created_topic_has_no_more_queues_than_its_template(self) -> None:
        assert len(writable_queues("T", template_route(route(A, queues=7), queue_nums=4))) == 4
        assert len(writable_queues("T", template_route(route(A, queues=1), queue_nums=4))) == 2

    def test_the_order_of_a_routes_lists_makes_no_difference(self) -> None:
        assert is_same_route(route(A, B), route(B, A))
        assert not is_same_route(route(A, B), route(A))
        assert not is_same_route(route(A), route(A, queues=3))

    @pytest.mark.parametrize(
        ("addresses", "suggested", "expected"),
        [
            ({0: "m", 1: "s"}, 0, ("m", False)),
            ({0: "m", 1: "s"}, 1, ("s", True)),
            ({0: "m", 2: "s"}, 1, ("s", True)),
            ({0: "m"}, 1, ("m", False)),
            ({1: "s"}, 0, ("s", True)),
            ({}, 0, None),
        ],
    )
    def test_pulls_go_where_the_broker_suggests(
        self, addresses: dict[int, str], suggested: int, expected: tuple[str, bool] | None
    ) -> None:
        assert pull_address(addresses, suggested) == expected

    def test_the_second_port_is_two_below(self) -> None:
        assert vip_address("10.0.0.1:10911") == "10.0.0.1:10909"


class TestNameServers:
    async def test_one_is_used_until_it_fails_then_the_next(self) -> None:
        async with open_scripted(name_server_count=2) as scripted, Client() as client:
            scripted.add_topic("T")
            servers = NameServers(
                ClientSettings(namesrv=tuple(server.address for server in scripted.name_servers)),
                client,
                clock=SystemClock(),
                link=TcpLink(),
                chance=Chance(1),
            )
            for _ in range(3):
                await servers.get_route("T", timeout_s=3)
            counts = [server.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) for server in scripted.name_servers]
            assert sorted(counts) == [0, 3]
            used = counts.index(3)
            await scripted.name_servers[used].server.close()
            for _ in range(3):
                await servers.get_route("T", timeout_s=3)
            assert scripted.name_servers[1 - used].count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 3

    async def test_one_that_hangs_leaves_time_for_the_other(self) -> None:
        async with open_scripted(name_server_count=2) as scripted, Client() as client:
            scripted.add_topic("T")
            servers = NameServers(
                ClientSettings(namesrv=tuple(server.address for server in scripted.name_servers)),
                client,
                clock=SystemClock(),
                link=TcpLink(),
                chance=Chance(1),
            )
            hanging = next(server for server in scripted.name_servers if server.address == servers.addresses[0])
            hanging.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda frame: None)
            await servers.get_route("T", timeout_s=2)
            await asyncio.sleep(0.2)  # until it could be dialled again
            for _ in range(3):
                await servers.get_route("T", timeout_s=2)
            assert hanging.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 1

    async def test_a_topic_is_unknown_only_if_all_say_so(self) -> None:
        async with open_scripted(name_server_count=2) as scripted, Client() as client:
            scripted.add_topic("T")
            del scripted.name_servers[0].routes["T"]
            servers = NameServers(
                ClientSettings(namesrv=tuple(server.address for server in scripted.name_servers)),
                client,
                clock=SystemClock(),
                link=TcpLink(),
                chance=Chance(1),
            )
            assert await servers.get_route("T", timeout_s=3)
            with pytest.raises(NoRoute, match="neither knows it"):
                await servers.get_route("U", timeout_s=3)
            await scripted.name_servers[0].server.close()
            with pytest.raises(ConnectFailed, match="others could not be asked"):
                await servers.get_route("U", timeout_s=3)

    async def test_a_list_comes_from_the_address_server_and_follows_it(self) -> None:
        listed: list[str] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + ";".join(listed).encode())
            writer.close()

        page = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = page.sockets[0].getsockname()[1]
        clock = ManualClock()
        async with page, open_scripted(name_server_count=2) as scripted:
            scripted.add_topic("T")
            listed.append(scripted.name_servers[0].address)
            async with Producer("p", address_server=f"127.0.0.1:{port}", clock=clock) as producer:
                await producer.send(Message("T", b"x"))
                listed[:] = [scripted.name_servers[1].address]
                assert producer._instance is not None
                servers = producer._instance.name_servers
                await clock.advance(11)
                await until(lambda: servers.addresses == tuple(listed))
                listed[:] = []
                await clock.advance(121)
                await asyncio.sleep(0.05)
                assert servers.addresses == (scripted.name_servers[1].address,)

    async def test_without_any_list_the_error_says_how_to_give_one(self) -> None:
        with pytest.raises(ClientError, match="pass namesrv='host:9876', or set NAMESRV_ADDR"):
            await Producer("p", address_server="127.0.0.1:1").start()


class TestKeepingFresh:
    async def test_routes_in_use_are_asked_for_every_half_minute(self) -> None:
        clock = ManualClock()
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T", brokers=["broker-a"])
            async with Producer("p", namesrv=scripted.namesrv, clock=clock) as producer:
                await producer.send(Message("T", b"x"))
                scripted.add_topic("T", brokers=["broker-b"])
                await clock.advance(29)
                await asyncio.sleep(0.05)
                assert {queue.broker_name for queue in await producer.queues("T")} == {"broker-a"}
                await clock.advance(2)
                await until(lambda: _brokers(producer) == {"broker-b"})

    async def test_a_broker_that_was_lost_is_looked_for_every_second(self) -> None:
        clock = ManualClock()
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")
            async with Producer("p", namesrv=scripted.namesrv, clock=clock) as producer:
                await producer.send(Message("T", b"x"))
                scripted.add_topic("T", brokers=["broker-a"])
                await clock.advance(31)
                await until(lambda: _brokers(producer) == {"broker-a"})
                scripted.add_topic("T")
                await clock.advance(2)
                await until(lambda: _brokers(producer) == {"broker-a", "broker-b"})

    async def test_a_broker_that_does_not_answer_makes_its_topics_be_asked_for_again(self) -> None:
        clock = ManualClock()
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T", brokers=["broker-a"])
            async with Producer("p", namesrv=scripted.namesrv, clock=clock) as producer:
                await producer.send(Message("T", b"x"))
                await clock.advance(5)
                await scripted.brokers["broker-a"].server.close()
                sending = asyncio.create_task(producer.send(Message("T", b"x")))
                await _pass_until(clock, sending.done, seconds=10)  # it tries again until its time is up
                with pytest.raises(NetError):
                    await sending
                await until(lambda: _asked(scripted, "T") >= 2)
                scripted.add_topic("T", brokers=["broker-b"])
                await _pass_until(clock, lambda: _brokers(producer) == {"broker-b"}, seconds=4)

    async def test_a_topic_that_was_suspected_once_is_settled_again(self) -> None:
        clock = ManualClock()
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")
            async with Producer("p", namesrv=scripted.namesrv, clock=clock) as producer:
                await producer.send(Message("T", b"x"))
                assert producer._instance is not None
                producer._instance.routes.suspect("T")
                for _ in range(50):
                    await clock.advance(2)
                    await breathe(0.002)
                scripted.add_topic("T", brokers=["broker-a"])
                await _pass_until(clock, lambda: _brokers(producer) == {"broker-a"}, seconds=32)
                scripted.add_topic("T")
                await _pass_until(clock, lambda: _brokers(producer) == {"broker-a", "broker-b"}, seconds=4)

    async def test_a_broker_that_is_lost_while_another_is_missing_is_looked_for_every_second(self) -> None:
        clock = ManualClock()
        async with open_scripted(brokers=["broker-a", "broker-b", "broker-c"]) as scripted:
            scripted.add_topic("T")
            async with Producer("p", namesrv=scripted.namesrv, clock=clock) as producer:
                await producer.send(Message("T", b"x"))
                scripted.add_topic("T", brokers=["broker-a", "broker-b"])
                for _ in range(100):
                    await clock.advance(3)
                    await breathe(0.002)
                scripted.add_topic("T", brokers=["broker-a"])
                await _pass_until(clock, lambda: _brokers(producer) == {"broker-a"}, seconds=32)
                scripted.add_topic("T", brokers=["broker-a", "broker-b"])
                await _pass_until(clock, lambda: _brokers(producer) == {"broker-a", "broker-b"}, seconds=4)

    async def test_what_is_known_stays_when_the_name_server_forgets_it(self) -> None:
        clock = ManualClock()
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            async with Producer("p", namesrv=scripted.namesrv, clock=clock) as producer:
                await producer.send(Message("T", b"x"))
                scripted.name_servers[0].routes.clear()
                asked = scripted.name_servers[0].count(RequestCode.GET_ROUTEINFO_BY_TOPIC)
                await clock.advance(31)
                await until(lambda: scripted.name_servers[0].count(RequestCode.GET_ROUTEINFO_BY_TOPIC) > asked)
                await producer.send(Message("T", b"x"))

    async def test_an_unknown_topic_is_asked_for_less_and_less_often(self) -> None:
        clock = ManualClock()
        async with open_scripted() as scripted:
            async with Producer("p", namesrv=scripted.namesrv, clock=clock) as producer:
                with pytest.raises(NoRoute):
                    await producer.send(Message("T", b"x"))
                counts = []
                for _ in range(3):
                    before = _asked(scripted, "T")
                    await _pass(clock, 60)
                    counts.append(_asked(scripted, "T") - before)
            assert counts[0] > counts[1] >= counts[2] >= 2

    async def test_a_topic_that_becomes_known_is_looked_after_until_all_its_brokers_have_it(self) -> None:
        clock = ManualClock()
        brokers = ["broker-a", "broker-b", "broker-c"]
        async with (
            open_scripted(brokers=brokers) as scripted,
            Producer("p", namesrv=scripted.namesrv, clock=clock) as producer,
        ):
            with pytest.raises(NoRoute):
                await producer.send(Message("T", b"x"))
            await _pass(clock, 120)  # it is asked for rarely by now
            for count, seconds in ((1, 32), (2, 4), (3, 4)):
                scripted.add_topic("T", brokers=brokers[:count])
                await _pass_until(clock, lambda: len(_brokers(producer)) == count, seconds=seconds)  # noqa: B023
            await _pass(clock, 40)
            asked = _asked(scripted, "T")
            await _pass(clock, 25)
            assert _asked(scripted, "T") - asked <= 1  # settled

    async def test_many_who_ask_at_once_ask_once(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            async with Producer("p", namesrv=scripted.namesrv) as producer:
                await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(50)))
            assert _asked(scripted, "T") == 1

    async def test_heartbeats_come_every_half_minute_and_forget_what_is_offline(self) -> None:
        clock = ManualClock()
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")
            lost = scripted.brokers["broker-b"]
            async with Producer("p", namesrv=scripted.namesrv, clock=clock) as producer:
                await producer.send(Message("T", b"x"))
                await clock.advance(1.1)
                await until(lambda: lost.count(RequestCode.HEART_BEAT))
                before = lost.count(RequestCode.HEART_BEAT)
                for expected in (before + 1, before + 2):
                    await clock.advance(30)
                    await until(lambda: lost.count(RequestCode.HEART_BEAT) == expected)  # noqa: B023
                scripted.add_topic("T", brokers=["broker-a"])
                await clock.advance(60)
                await breathe()
                await clock.advance(30)
                assert producer._instance is not None
                assert producer._instance.routes.known_addresses(masters_only=False) == [
                    scripted.brokers["broker-a"].address
                ]


def _brokers(producer: Producer) -> set[str]:
    assert producer._instance is not None
    return {queue.broker_name for queue in producer._instance.routes.writable("T")}


def _asked(scripted: Scripted, topic: str) -> int:
    return sum(frame.ext is not None and frame.ext["topic"] == topic for frame in scripted.name_servers[0].received)


async def _pass(clock: ManualClock, seconds: int) -> None:
    for _ in range(seconds):
        await clock.advance(1)
        await breathe(0.002)


async def _pass_until(clock: ManualClock, condition: Callable[[], bool], *, seconds: int) -> None:
    """Let no more than so many seconds of the clock pass."""
    for _ in range(seconds):
        await clock.advance(1)
        await breathe()
        if condition():
            return
    pytest.fail("what was waited for did not happen")


class TestSettings:
    def test_addresses_come_in_several_forms(self) -> None:
        def addresses(given: str | list[str] | None, environ: dict[str, str] | None = None) -> tuple[str, ...]:
            return settings_from(given, SharedOptions(), environ=environ or {}).namesrv

        assert addresses("a:1; b:2;") == ("a:1", "b:2")
        assert addresses(["a:1", "a:1"]) == ("a:1",)
        assert addresses("http://MQ_INST_1_x.mq.aliyuncs.com:80") == ("MQ_INST_1_x.mq.aliyuncs.com:80",)
        assert addresses(None, {"NAMESRV_ADDR": "c:3"}) == ("c:3",)
        assert addresses(None) == ("127.0.0.1:9876",)
        with pytest.raises(IllegalArgument, match="host:port"):
            addresses("nonsense")

    @pytest.mark.parametrize(
        ("options", "environ", "asked"),
        [
            (SharedOptions(), {}, ""),
            (SharedOptions(unit_name="u"), {"ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP": "mine"}, ""),
            (SharedOptions(address_server="page"), {}, "http://page:8080/rocketmq/nsaddr"),
            (SharedOptions(), {"ROCKETMQ_NAMESRV_DOMAIN": "page:1"}, "http://page:1/rocketmq/nsaddr"),
        ],
    )
    def test_nobody_is_asked_for_name_servers_who_was_not_named(
        self, options: SharedOptions, environ: dict[str, str], asked: str
    ) -> None:
        settings = settings_from(None, options, environ=environ)
        assert (settings.address_server_url, not settings.namesrv) == (asked, bool(asked))

    def test_a_namespace_may_stand_in_the_address(self) -> None:
        settings = settings_from("http://MQ_INST_1_x.mq.aliyuncs.com:80", SharedOptions(), environ={})
        assert settings.namespace == "MQ_INST_1_x"


@pytest.mark.parametrize("count", [2**31 - 1, -5])
def test_no_route_makes_a_client_hold_more_queues_than_it_can(count: int) -> None:
    brokers = [A] + [BrokerData(broker_addrs={0: f"10.0.1.{n}:1"}, broker_name=f"b{n}", cluster="C") for n in range(9)]
    expected = max(min(count, 65_536), 0)
    assert len(writable_queues("T", route(A, queues=count))) == expected
    assert len(readable_queues("T", route(A, queues=count - 1))) == expected
    assert len(writable_queues("T", route(A, order=f"broker-a:{max(count, 0)}"))) == expected
    assert len(readable_queues("T", route(*brokers, queues=count - 1))) == (4 * 65_536 if count > 0 else 0)
    assert writable_queues("T", route(A, order="broker-a:" + "9" * 5000)) == ()
