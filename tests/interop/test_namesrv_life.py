"""Brokers of Apache's that come, are killed, stopped and silenced; name servers that die and come back.

Where a broker registers at Apache's name server too, both must come to know and to forget it in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from skyrocketmq.config import NamesrvConfig, ServerConfig
from skyrocketmq.nameserver import NameServer
from skyrocketmq.nameserver.server import BROKER_SILENT_S, SCAN_EVERY_S
from skyrocketmq.testing import ManualClock
from tests.interop import ours, remoting
from tests.interop.apache import DEFAULT_CLUSTER, Apache, Server
from tests.interop.driver import Driver, message
from tests.interop.processes import RunningServer, wait_until
from tests.interop.routes import addresses_of, all_addresses, find_route

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60, func_only=True)]

AT_ONCE_S = 3.0
"""How soon a broken connection must be noticed, on a busy machine; expiry would take 120 s."""
IDLE_S = 12
"""Longer than the 10 s between two registrations of a living broker."""


@pytest.fixture
def both_kinds(apache: Apache, tmp_path: Path) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Apache's name server and ours."""
    with apache.namesrv() as theirs, ours.namesrv(tmp_path / "namesrv") as our_own:
        yield theirs, our_own


@pytest.fixture
def two_of_ours(tmp_path: Path) -> Iterator[tuple[RunningServer, RunningServer]]:
    with ours.namesrv(tmp_path / "namesrv-1") as first, ours.namesrv(tmp_path / "namesrv-2") as second:
        yield first, second


def joined(servers: tuple[RunningServer, ...]) -> str:
    return ";".join(server.address for server in servers)


def make_topic(java: Driver, servers: tuple[RunningServer, ...], topic: str) -> None:
    """Make a topic on all brokers of the cluster, and wait until every name server knows it."""
    printed = java.mqadmin("updateTopic", "-c", DEFAULT_CLUSTER, "-t", topic, namesrv=servers[0].address)
    assert "success" in printed
    for server in servers:
        eventually(partial(has_topic, server, topic), f"{server.address} knows {topic}")


def has_topic(server: RunningServer, topic: str) -> bool:
    return find_route(server.address, topic) is not None


def has_broker(server: RunningServer, name: str, broker_id: str = "0") -> bool:
    return broker_id in addresses_of(server.address, name)


def lacks_broker(server: RunningServer, name: str, broker_id: str = "0") -> bool:
    return not has_broker(server, name, broker_id)


def eventually(condition: Callable[[], bool], what: str, *, timeout_s: float = 10.0) -> None:
    wait_until(condition, timeout_s=timeout_s, what=what)


def check_name_is_kept(server: RunningServer, name: str, address: str) -> None:
    """Apache's broker answers our name server's question, so nobody else gets its name."""
    false = {"brokerName": name, "brokerAddr": "10.66.6.6:10911", "clusterName": DEFAULT_CLUSTER, "brokerId": "0"}
    with remoting.connect(server.address, source="127.0.0.2", timeout_s=10) as connection:
        reply = remoting.exchange(connection, remoting.encode_request(remoting.REGISTER_BROKER, false))
        assert (reply.code, "answers there" in (reply.remark or "")) == (remoting.SYSTEM_ERROR, True)
    assert addresses_of(server.address, name) == {"0": address}


def max_offset(broker: Server, topic: str) -> int:
    reply = remoting.request(broker.address, remoting.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})
    return int(reply.ext["offset"])


def test_a_killed_master_is_forgotten_at_once_and_its_slave_keeps_the_topics(
    apache: Apache, java: Driver, both_kinds: tuple[RunningServer, RunningServer]
) -> None:
    _, our_own = both_kinds
    with (
        apache.broker(
            namesrv=joined(both_kinds), name="broker-m", config={"compressedRegister": "true"}, start=False
        ) as master,
        # The slave asks only our name server, so it is our answer that leads it to its master.
        apache.broker(
            namesrv=our_own.address, name="broker-m", broker_id=1, config={"forceRegister": "false"}, start=False
        ) as slave,
    ):
        master.start()
        slave.start()
        make_topic(java, both_kinds, "Kept")
        with java.producer("to-the-master", namesrv=our_own.address) as producer:
            [queue, *_] = producer.publish_queues("Kept")
            producer.send(message("Kept", "{i}", count=5), queue=queue)
        assert addresses_of(our_own.address, "broker-m") == {"0": master.address, "1": slave.address}
        eventually(lambda: max_offset(slave, "Kept") == 5, "the slave has found its master", timeout_s=30)

        master.kill()

        for server in both_kinds:
            eventually(
                partial(lacks_broker, server, "broker-m"),
                f"{server.address} has forgotten the master",
                timeout_s=AT_ONCE_S,
            )
        theirs_route, our_route = (find_route(server.address, "Kept") for server in both_kinds)
        assert theirs_route is None  # no broker of that name is left there
        assert our_route is not None
        assert our_route["brokerDatas"] == [
            {"brokerAddrs": {"1": slave.address}, "brokerName": "broker-m", "cluster": DEFAULT_CLUSTER}
        ]


def test_a_stopped_broker_is_forgotten_and_known_again_after_its_restart(
    apache: Apache, java: Driver, both_kinds: tuple[RunningServer, RunningServer]
) -> None:
    with apache.broker(namesrv=joined(both_kinds), name="broker-s") as broker:
        make_topic(java, both_kinds, "Restarted")
        check_name_is_kept(both_kinds[1], "broker-s", broker.address)

        broker.stop()

        for server in both_kinds:
            assert addresses_of(server.address, "broker-s") == {}
            assert find_route(server.address, "Restarted") is None

        broker.start()

        for server in both_kinds:
            assert addresses_of(server.address, "broker-s") == {"0": broker.address}
            assert find_route(server.address, "Restarted") is not None


def test_a_broker_whose_connection_is_idle_is_forgotten_and_comes_back(apache: Apache, tmp_path: Path) -> None:
    config = {"serverChannelMaxIdleTimeSeconds": str(IDLE_S)}
    with ExitStack() as running:
        servers = (
            running.enter_context(apache.namesrv(config=config)),
            running.enter_context(ours.namesrv(tmp_path / "namesrv", config=config)),
        )
        broker = running.enter_context(apache.broker(namesrv=joined(servers), name="broker-i"))

        broker.pause()  # its connections stay open, but nothing comes any more

        for server in servers:
            eventually(
                partial(lacks_broker, server, "broker-i"),
                f"{server.address} has forgotten the silent broker",
                timeout_s=IDLE_S + AT_ONCE_S,
            )
        broker.resume()
        for server in servers:
            eventually(partial(has_broker, server, "broker-i"), f"{server.address} knows it again", timeout_s=15)


async def test_a_broker_that_is_silent_on_an_open_connection_expires_and_comes_back(
    apache: Apache, tmp_path: Path
) -> None:
    clock = ManualClock()
    config = NamesrvConfig(
        kv_config_path=tmp_path / "kvConfig.json",
        config_store_path=tmp_path / "namesrv.properties",
        server=ServerConfig(idle_timeout_s=3600),  # else idleness, after the same 120 s, would get there first
    )
    async with NameServer.open(config, host="127.0.0.1", port=0, clock=clock) as namesrv:
        with apache.broker(namesrv=namesrv.address, name="broker-e", start=False) as broker:

            def is_known() -> bool:
                return broker.address in all_addresses(namesrv.address)

            await asyncio.to_thread(broker.start)
            broker.pause()

            await clock.advance(BROKER_SILENT_S - SCAN_EVERY_S)
            assert await asyncio.to_thread(is_known)
            await clock.advance(3 * SCAN_EVERY_S)
            assert not await asyncio.to_thread(is_known)

            broker.resume()  # it finds its connection closed, and registers on a new one
            await asyncio.to_thread(eventually, is_known, "the broker is known again", timeout_s=20)


def test_brokers_and_clients_go_on_when_one_of_two_name_servers_is_killed(
    apache: Apache, java: Driver, two_of_ours: tuple[RunningServer, RunningServer]
) -> None:
    first, second = two_of_ours
    both = joined(two_of_ours)
    with apache.broker(namesrv=both, name="broker-t") as broker, java.producer("t", namesrv=both) as producer:
        make_topic(java, two_of_ours, "Before")
        producer.send(message("Before", "both are there"))

        first.kill()

        # A client that knew the dead one, and one that first hears of it: both find a new topic's route at the other.
        make_topic(java, (second,), "After")
        with java.producer("newcomer", namesrv=both) as newcomer:
            sent = producer.send(message("After", "one is left")) + newcomer.send(message("After", "one is left"))
        assert [result.status for result in sent] == ["SEND_OK", "SEND_OK"]
        assert "After" in java.mqadmin("topicList", namesrv=both).split()

        first.start()

        # Name servers tell one another nothing: the broker's next registration brings everything back.
        eventually(lambda: find_route(first.address, "After") is not None, "the first one is told again", timeout_s=15)
        assert addresses_of(first.address, "broker-t") == {"0": broker.address}


def test_key_value_config_survives_a_kill_and_a_change_between_apaches_name_server_and_ours(
    apache: Apache, tmp_path: Path
) -> None:
    config = {"kvConfigPath": str(tmp_path / "kv" / "kvConfig.json")}
    with ours.namesrv(tmp_path / "namesrv-1", config=config) as server:
        put(server, "by", "ours")
        server.kill()
        server.start()
        assert get(server, "by") == "ours"
    with apache.namesrv(config=config) as server:
        assert get(server, "by") == "ours"
        put(server, "also-by", "apache's: 蓝\n")
    with ours.namesrv(tmp_path / "namesrv-2", config=config) as server:
        assert (get(server, "by"), get(server, "also-by")) == ("ours", "apache's: 蓝\n")


def put(server: RunningServer, key: str, value: str) -> None:
    fields = {"namespace": "interop", "key": key, "value": value}
    assert remoting.request(server.address, remoting.PUT_KV_CONFIG, fields).code == remoting.SUCCESS


def get(server: RunningServer, key: str) -> str:
    return remoting.request(server.address, remoting.GET_KV_CONFIG, {"namespace": "interop", "key": key}).ext["value"]
