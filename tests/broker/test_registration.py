"""A broker's registrar with real name servers on real sockets, and with some that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.broker.identity import BrokerIdentity
from skyrocketmq.broker.name_servers import NameServers
from skyrocketmq.broker.registration import Master, Registrar, RegistrationAnswer, merge_answers, partial_version
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, ConfigHolder, NamesrvConfig
from skyrocketmq.model import DataVersion, TopicConfig
from skyrocketmq.nameserver import NameServer
from skyrocketmq.nameserver.kv_config import ORDER_TOPIC_CONFIG
from skyrocketmq.net import Client, Connection, Dispatcher, Server
from skyrocketmq.ports import LocalDisk, SystemClock, TcpLink
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.registration import decode_registration
from tests.broker.support import BROKER, CLUSTER, holder, until

ADDRESS = "10.0.0.1:10911"
HA_ADDRESS = "10.0.0.1:10912"


@dataclass
class Broker:
    """As much of a broker as registers."""

    topics: TopicTable
    registrar: Registrar
    config: ConfigHolder[BrokerConfig]
    client: Client


@asynccontextmanager
async def broker(
    *name_servers: str, broker_id: int = 0, address: str = ADDRESS, **config: Any
) -> AsyncIterator[Broker]:
    clock, link, disk = SystemClock(), TcpLink(), LocalDisk()
    settings = holder(clock, namesrv_addresses=name_servers, **config)
    topics = TopicTable(settings, clock)
    identity = BrokerIdentity(
        cluster_name=CLUSTER, broker_name=BROKER, broker_id=broker_id, address=address, ha_address=HA_ADDRESS
    )
    async with Client(clock=clock, link=link) as client:
        servers = NameServers(settings, client, clock=clock, link=link)
        registrar = Registrar(identity, settings, topics, servers, disk=disk, clock=clock)
        topics.listeners.append(registrar.announce)
        settings.subscribe(lambda change: topics.apply_config(change.before, change.after))
        try:
            yield Broker(topics, registrar, settings, client)
        finally:
            await registrar.close()
            disk.close()


@asynccontextmanager
async def name_server(path: Path, port: int = 0) -> AsyncIterator[NameServer]:
    config = NamesrvConfig(kv_config_path=path / "kv.json", config_store_path=path / "namesrv.properties")
    async with NameServer.open(config, host="127.0.0.1", port=port) as server:
        yield server


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[list[NameServer]]:
    async with AsyncExitStack() as opened:
        yield [await opened.enter_async_context(name_server(tmp_path)) for _ in range(2)]


@asynccontextmanager
async def scripted(answer: Callable[[Frame, Connection], Any]) -> AsyncIterator[str]:
    """A name server that answers every request in the test's own way."""
    async with await Server.start(("127.0.0.1", 0), Dispatcher(default=answer)) as server:
        yield f"127.0.0.1:{server.port}"


def topics_at(server: NameServer) -> set[str]:
    return set(server.tables.topics())


async def closed_port() -> str:
    async with scripted(lambda frame, connection: frame.reply()) as address:
        return address


async def test_at_its_start_a_broker_is_registered_with_every_name_server(servers: list[NameServer]) -> None:
    async with broker(*(server.address for server in servers)) as started:
        assert await started.registrar.start() == 2
        for server in servers:
            assert topics_at(server) == set(started.topics.names())
            info = server.tables.cluster_info()
            assert info.broker_addr_table[BROKER].broker_addrs == {0: ADDRESS}
            assert info.cluster_addr_table == {CLUSTER: [BROKER]}


async def test_a_name_server_that_is_down_does_not_keep_the_others_from_knowing(servers: list[NameServer]) -> None:
    async with broker(await closed_port(), servers[0].address) as started:
        assert await started.registrar.start() == 1
        assert "TBW102" in topics_at(servers[0])


async def test_a_name_server_that_never_answers_delays_no_other(servers: list[NameServer]) -> None:
    released = asyncio.Event()

    async def hang(frame: Frame, connection: Connection) -> Frame:
        await released.wait()
        return frame.reply()

    async with scripted(hang) as hung, broker(hung, servers[0].address) as started:
        registering = asyncio.create_task(started.registrar.start())
        await until(lambda: "TBW102" in topics_at(servers[0]))
        started.topics.put(TopicConfig("orders"))
        await until(lambda: "orders" in topics_at(servers[0]))
        assert not registering.done()
        released.set()
        assert await registering == 2


async def test_a_new_topic_is_announced_at_once_and_alone(servers: list[NameServer]) -> None:
    async with broker(*(server.address for server in servers)) as started:
        await started.registrar.start()
        started.topics.put(TopicConfig("orders", 3, 2))
        assert await started.registrar.announced()
        for server in servers:
            route = server.tables.find_route("orders")
            assert route is not None
            assert [(queue.read_queue_nums, queue.write_queue_nums) for queue in route.queue_datas] == [(3, 2)]


async def test_many_new_topics_are_announced_in_few_requests() -> None:
    requests: list[Frame] = []

    def answer(frame: Frame, connection: Connection) -> Frame:
        requests.append(frame)
        return frame.reply()

    async with scripted(answer) as address, broker(address) as started:
        await started.registrar.start()
        requests.clear()
        for number in range(1000):
            started.topics.put(TopicConfig(f"topic-{number}"))
        assert await started.registrar.announced()
        announced: set[str] = set()
        for frame in requests:
            body = decode_registration(frame.body, version=frame.version)
            announced |= set(body.topics.topic_config_table)
        assert announced == {f"topic-{number}" for number in range(1000)}
        assert len(requests) <= 3


async def test_a_name_server_that_first_hears_of_one_topic_still_takes_all_the_others(
    servers: list[NameServer],
) -> None:
    async with broker(servers[0].address) as started:
        await started.registrar.refresh_addresses()
        started.topics.put(TopicConfig("orders"))
        await started.registrar.announced()
        assert topics_at(servers[0]) == {"orders"}
        await started.registrar.register()
        assert topics_at(servers[0]) == set(started.topics.names())


async def test_a_name_server_that_was_restarted_is_told_everything_within_seconds(tmp_path: Path) -> None:
    async with AsyncExitStack() as opened:
        async with name_server(tmp_path) as first:
            port = first.port
            started = await opened.enter_async_context(broker(first.address))
            await started.registrar.start()
        second = await opened.enter_async_context(name_server(tmp_path, port))
        assert topics_at(second) == set()
        for _ in range(40):
            await started.registrar.reconnect()
            if topics_at(second):
                break
            await asyncio.sleep(0.1)
        assert topics_at(second) == set(started.topics.names())


async def test_a_lost_connection_is_made_good_without_waiting_for_the_next_interval(servers: list[NameServer]) -> None:
    async with broker(*(server.address for server in servers)) as started:
        await started.registrar.start()
        lost = started.client.find(servers[0].address)
        assert lost is not None
        lost.abort("the test cuts it")
        await until(lambda: topics_at(servers[0]) == set())
        await started.registrar.reconnect()
        assert topics_at(servers[0]) == topics_at(servers[1]) == set(started.topics.names())


async def test_at_its_end_a_broker_is_unregistered_everywhere(servers: list[NameServer]) -> None:
    async with broker(*(server.address for server in servers), await closed_port()) as started:
        await started.registrar.start()
        assert all(topics_at(server) for server in servers)
        await started.registrar.close()
        await started.registrar.register()
        await started.registrar.reconnect()
        started.topics.put(TopicConfig("orders"))
        await started.registrar.announced()
        assert [topics_at(server) for server in servers] == [set(), set()]


async def test_a_compressed_registration_is_understood(servers: list[NameServer]) -> None:
    async with broker(servers[0].address, compressed_register=True) as started:
        await started.registrar.start()
        started.topics.put(TopicConfig("orders", 3, 2))
        await started.registrar.announced()
        assert topics_at(servers[0]) == set(started.topics.names())


async def test_without_force_a_name_server_that_is_up_to_date_is_only_asked() -> None:
    requests: list[int] = []
    is_changed = "false"

    def answer(frame: Frame, connection: Connection) -> Frame:
        requests.append(frame.code)
        return frame.reply(ext={"changed": is_changed} if frame.code == RequestCode.QUERY_DATA_VERSION else None)

    async with scripted(answer) as address, broker(address, force_register=False) as started:
        await started.registrar.start()
        assert requests == [RequestCode.REGISTER_BROKER]
        await started.registrar.register()
        assert requests[1:] == [RequestCode.QUERY_DATA_VERSION]
        is_changed = "true"
        await started.registrar.register()
        assert requests[2:] == [RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER]


async def test_without_force_a_change_is_still_registered_whole(servers: list[NameServer]) -> None:
    async with broker(servers[0].address, force_register=False) as started:
        await started.registrar.start()
        started.topics.put(TopicConfig("orders"))
        await started.registrar.announced()
        servers[0].tables.delete_topic("TBW102")  # as if an earlier change had been lost on the way
        await started.registrar.register()
        assert topics_at(servers[0]) == set(started.topics.names())
        servers[0].tables.delete_topic("TBW102")
        await started.registrar.register()  # the same version again: the name server passes it over
        assert "TBW102" not in topics_at(servers[0])


async def test_a_name_server_that_does_not_know_the_question_is_given_the_whole_table() -> None:
    requests: list[int] = []

    def answer(frame: Frame, connection: Connection) -> Frame:
        requests.append(frame.code)
        return frame.reply(3 if frame.code == RequestCode.QUERY_DATA_VERSION else 0)

    async with scripted(answer) as address, broker(address, force_register=False) as started:
        await started.registrar.start()
        await started.registrar.register()
        assert requests[1:] == [RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER]


async def test_topics_that_the_name_servers_list_as_ordered_get_their_flag(servers: list[NameServer]) -> None:
    async with broker(servers[0].address) as started:
        started.topics.put(TopicConfig("orders"))
        await started.registrar.start()
        found = started.topics.find("orders")
        assert found is not None
        assert not found.order
        await servers[0].kv_config.put(ORDER_TOPIC_CONFIG, "orders", f"{BROKER}:4")
        await started.registrar.register()
        found = started.topics.find("orders")
        assert found is not None
        assert found.order


async def test_a_slave_learns_where_its_master_is_and_when_it_is_gone(servers: list[NameServer]) -> None:
    addresses = [server.address for server in servers]
    async with broker(*addresses, broker_id=1, address="10.0.0.2:10911", force_register=False) as slave:
        told: list[Master] = []
        slave.registrar.master_listeners.append(told.append)
        await slave.registrar.start()
        assert slave.registrar.master == Master()
        async with broker(*addresses) as master:
            await master.registrar.start()
            await slave.registrar.register()
            assert slave.registrar.master == Master(ADDRESS, HA_ADDRESS)
            await slave.registrar.register()
        await slave.registrar.register()
        assert told == [Master(ADDRESS, HA_ADDRESS), Master()]


async def test_a_slave_keeps_its_master_while_no_name_server_answers(tmp_path: Path) -> None:
    async with AsyncExitStack() as opened:
        async with name_server(tmp_path) as server:
            master = await opened.enter_async_context(broker(server.address))
            await master.registrar.start()
            slave = await opened.enter_async_context(broker(server.address, broker_id=1, address="10.0.0.2:10911"))
            await slave.registrar.start()
        assert await slave.registrar.register() == 0
        assert slave.registrar.master == Master(ADDRESS, HA_ADDRESS)


async def test_a_broker_without_write_permission_announces_that_for_every_topic(servers: list[NameServer]) -> None:
    async with broker(servers[0].address) as started:
        await started.registrar.start()
        await started.config.update({"brokerPermission": "4"})
        await started.registrar.announced()
        route = servers[0].tables.find_route("TBW102")
        assert route is not None
        assert [queue.perm for queue in route.queue_datas] == [4]
        await started.config.update({"brokerPermission": "6"})
        await started.registrar.announced()
        await started.registrar.register()
        route = servers[0].tables.find_route("TBW102")
        assert route is not None
        assert [queue.perm for queue in route.queue_datas] == [7]


async def test_a_changed_list_of_name_servers_is_followed(servers: list[NameServer]) -> None:
    async with broker(servers[0].address) as started:
        await started.registrar.start()
        await started.config.update({"namesrvAddr": servers[1].address})
        await started.registrar.refresh_addresses()
        await started.registrar.reconnect()
        assert topics_at(servers[1]) == set(started.topics.names())
        await until(lambda: topics_at(servers[0]) == set())


async def test_name_servers_are_found_through_an_address_server_and_kept_when_that_fails(
    servers: list[NameServer],
) -> None:
    page = f"{servers[0].address};{servers[1].address}"
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode().split()[1])
        body = page.encode()
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    web = await asyncio.start_server(serve, "127.0.0.1", 0)
    domain = f"127.0.0.1:{web.sockets[0].getsockname()[1]}"
    async with broker(
        fetch_namesrv_addresses=True, address_server_domain=domain, address_server_sub_group="mine"
    ) as started:
        assert await started.registrar.start() == 2
        assert asked == ["/rocketmq/mine"]
        page = ""
        await started.registrar.refresh_addresses()
        assert await started.registrar.register() == 2
        web.close()
        await web.wait_closed()
        await started.registrar.refresh_addresses()
        assert await started.registrar.register() == 2


async def test_a_refused_registration_is_no_answer() -> None:
    async with scripted(lambda frame, _: frame.reply(1, remark="no")) as address, broker(address) as started:
        assert await started.registrar.start() == 0


async def test_garbage_in_an_answer_harms_nobody(servers: list[NameServer]) -> None:
    async with (
        scripted(lambda frame, _: frame.reply(body=b"\xff{")) as strange,
        broker(strange, servers[0].address) as started,
    ):
        assert await started.registrar.start() == 1
        assert "TBW102" in topics_at(servers[0])


def test_a_part_of_a_table_never_has_the_version_of_a_whole() -> None:
    for counter in (0, 1, 7):
        assert partial_version(DataVersion(5, counter)).counter < 0
    assert partial_version(DataVersion(5, 1)) != partial_version(DataVersion(5, 2))


def test_the_first_name_server_that_says_something_counts() -> None:
    silent = RegistrationAnswer(Master(), None)
    first = RegistrationAnswer(Master("m1", "h1"), None)
    second = RegistrationAnswer(Master("m2", "h2"), frozenset({"orders"}))
    assert merge_answers([silent, first, second]) == RegistrationAnswer(Master("m1", "h1"), frozenset({"orders"}))
    assert merge_answers([]) == silent
