"""A name server and brokers in one process: where they keep their data, and what stays of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.config import read_properties
from skyrocketmq.embedded import Embedded, EmbeddedOptions, broker_name
from skyrocketmq.errors import ConfigError, NetError, StoreLocked
from skyrocketmq.model import ClusterInfo, TopicRoute
from skyrocketmq.net import Client
from skyrocketmq.testing import FaultyDisk
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.requests import TOPIC, pull_frame, send_frame
from tests.net.support import open_descriptors
from tests.store.reader import Sizes, check_store, read_records

MIB = 1 << 20


@asynccontextmanager
async def open_cluster(directory: Path, *, disk: Any = None, **options: Any) -> AsyncIterator[tuple[Embedded, Client]]:
    settings = {"namesrv_port": 0, "broker_port": 0} | options
    async with Embedded.open(directory, EmbeddedOptions(**settings), disk=disk) as cluster, Client() as client:
        yield cluster, client


async def ask(client: Client, address: str, frame: Frame) -> Frame:
    answer = await client.request(address, frame, 5)
    assert answer.code == 0, answer.remark
    return answer


async def send(cluster: Embedded, client: Client, body: bytes, *, broker: int = 0) -> None:
    await ask(client, cluster.brokers[broker].address, send_frame(body=body))


async def pull(cluster: Embedded, client: Client, *, broker: int = 0) -> list[bytes]:
    answer = await ask(client, cluster.brokers[broker].address, pull_frame())
    return [record.body for record in read_records(answer.body)]


def used_bytes(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


# ------------------------------------------------------------------------------------------------------------- layout


async def test_everything_is_kept_where_apaches_broker_finds_it(tmp_path: Path) -> None:
    """The store of broker-a is DIR/broker-a, and `mqbroker -c DIR/broker-a.conf` starts on it."""
    async with open_cluster(tmp_path) as (cluster, client):
        await send(cluster, client, b"hello")
        await pull(cluster, client)
    store = tmp_path / "broker-a"
    found = set(os.listdir(store)) | set(os.listdir(store / "config"))
    assert found >= {
        "commitlog",
        "consumequeue",
        "index",
        "checkpoint",
        "lock",
        "topics.json",
        "subscriptionGroup.json",
    }
    keys = read_properties((tmp_path / "broker-a.conf").read_bytes())
    assert keys == {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "namesrvAddr": cluster.namesrv_address,
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "mappedFileSizeCommitLog": str(64 * MIB),
        "mappedFileSizeConsumeQueue": "600000",
        "maxHashSlotNum": "50000",
        "maxIndexNum": "200000",
    }


async def test_a_fresh_broker_takes_megabytes(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as (cluster, client):
        await send(cluster, client, b"hello")
        await asyncio.sleep(0.1)
        assert used_bytes(tmp_path) < 80 * MIB


async def test_what_a_cluster_leaves_is_a_store_in_order(tmp_path: Path) -> None:
    disk = FaultyDisk(directories=[tmp_path])
    async with open_cluster(tmp_path, disk=disk) as (cluster, client):
        for number in range(10):
            await send(cluster, client, b"%d" % number)
    sizes = Sizes(log_file=64 * MIB, queue_file=600_000, slots=50_000, entries=200_000)
    content = check_store(disk, tmp_path / "broker-a", sizes)
    assert [record.body for record in content.records] == [b"%d" % number for number in range(10)]


# -------------------------------------------------------------------------------------------------------- the cluster


async def test_ports_are_free_ones_three_for_each_broker(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as (cluster, client):
        host, _, port = cluster.brokers[0].address.rpartition(":")
        assert host == "127.0.0.1"
        fast = f"127.0.0.1:{int(port) - 2}"
        assert (await ask(client, fast, send_frame())).code == 0
        assert cluster.brokers[0].identity.ha_address == f"127.0.0.1:{int(port) + 1}"


async def test_the_broker_is_registered_when_the_cluster_is_ready(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as (cluster, client):
        info = await ask(client, cluster.namesrv_address, Frame(RequestCode.GET_BROKER_CLUSTER_INFO))
        table = decode_body(ClusterInfo, info.body).broker_addr_table
        assert {name: broker.broker_addrs for name, broker in table.items()} == {
            "broker-a": {0: cluster.brokers[0].address}
        }


async def test_a_topic_that_is_sent_to_has_a_route_at_once(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as (cluster, client):
        await send(cluster, client, b"hello")
        for _ in range(100):
            question = Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": TOPIC})
            answer = await client.request(cluster.namesrv_address, question, 5)
            if answer.code == 0:
                break
            await asyncio.sleep(0.01)
        route = decode_body(TopicRoute, answer.body)
        assert [(queue.broker_name, queue.write_queue_nums) for queue in route.queue_datas] == [("broker-a", 4)]


async def test_several_brokers_have_names_stores_and_ports_of_their_own(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, broker_count=3) as (cluster, client):
        assert [broker.identity.broker_name for broker in cluster.brokers] == ["broker-a", "broker-b", "broker-c"]
        for number in range(3):
            await send(cluster, client, b"%d" % number, broker=number)
        for number in range(3):
            assert await pull(cluster, client, broker=number) == [b"%d" % number]
        info = await ask(client, cluster.namesrv_address, Frame(RequestCode.GET_BROKER_CLUSTER_INFO))
        (names,) = decode_body(ClusterInfo, info.body).cluster_addr_table.values()
        assert sorted(names) == ["broker-a", "broker-b", "broker-c"]
    assert (tmp_path / "broker-c" / "commitlog").is_dir()


@pytest.mark.parametrize("count", [0, -1, 27])
def test_the_number_of_brokers_has_limits(count: int) -> None:
    with pytest.raises(ConfigError, match="1 to 26"):
        EmbeddedOptions(broker_count=count)


def test_brokers_are_named_by_letters() -> None:
    assert [broker_name(index) for index in (0, 1, 25)] == ["broker-a", "broker-b", "broker-z"]


# -------------------------------------------------------------------------------------------------------- what stays


async def test_messages_topics_and_offsets_are_there_after_a_restart(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as (cluster, client):
        for number in range(5):
            await send(cluster, client, b"%d" % number)
        offset: dict[str, str | None] = {
            "consumerGroup": "readers",
            "topic": TOPIC,
            "queueId": "0",
            "commitOffset": "3",
        }
        await ask(client, cluster.brokers[0].address, Frame(RequestCode.UPDATE_CONSUMER_OFFSET, ext=offset))
    async with open_cluster(tmp_path) as (cluster, client):
        assert await pull(cluster, client) == [b"%d" % number for number in range(5)]
        question = Frame(RequestCode.QUERY_CONSUMER_OFFSET, ext={**offset, "commitOffset": None})
        assert (await ask(client, cluster.brokers[0].address, question)).ext == {"offset": "3"}
        await send(cluster, client, b"5")
        assert len(await pull(cluster, client)) == 6


async def test_the_configuration_is_the_operators_after_the_first_start(tmp_path: Path) -> None:
    path = tmp_path / "broker-a.conf"
    async with open_cluster(tmp_path):
        pass
    path.write_text("# our own\n" + path.read_text() + "brokerClusterName=Ours\nfileReservedTime=5\nregionId=south\n")
    async with open_cluster(tmp_path) as (cluster, client):
        config = cluster.brokers[0].config.current
        assert (config.cluster_name, config.region_id, config.store.file_reserved_hours) == ("Ours", "south", 5)
        change = Frame(RequestCode.UPDATE_BROKER_CONFIG, body=b"regionId=north\n")
        await ask(client, cluster.brokers[0].address, change)
    async with open_cluster(tmp_path) as (cluster, client):
        config = cluster.brokers[0].config.current
        assert (config.cluster_name, config.region_id, config.store.file_reserved_hours) == ("Ours", "north", 5)
        assert read_properties(path.read_bytes())["namesrvAddr"] == cluster.namesrv_address, "addresses are kept right"


async def test_a_file_that_needs_no_change_is_left_as_it_is(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as (cluster, _):
        port = int(cluster.namesrv_address.rpartition(":")[2])
    path = tmp_path / "broker-a.conf"
    path.write_text("# written by hand\n" + path.read_text())
    before = path.read_bytes()
    async with open_cluster(tmp_path, namesrv_port=port):
        pass
    assert path.read_bytes() == before


async def test_settings_hold_for_one_start_and_are_not_written_down(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, settings={"autoCreateTopicEnable": "false", "regionId": "east"}) as (cluster, _):
        config = cluster.brokers[0].config.current
        assert (config.auto_create_topic, config.region_id) == (False, "east")
    async with open_cluster(tmp_path) as (cluster, _):
        config = cluster.brokers[0].config.current
        assert (config.auto_create_topic, config.region_id) == (True, "DefaultRegion")


async def test_a_misspelt_setting_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="autoCreateTopicEnable"):
        async with open_cluster(tmp_path, settings={"autoCreateTopicsEnable": "false"}):
            pass


# ------------------------------------------------------------------------------------------------------------ failures


async def test_a_data_directory_has_one_cluster_at_a_time(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as (cluster, client):
        with pytest.raises(StoreLocked, match="locked"):
            async with open_cluster(tmp_path):
                pass
        await send(cluster, client, b"the first one goes on")


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with open_cluster(tmp_path / "one") as (cluster, _):
        port = int(cluster.brokers[0].address.rpartition(":")[2])
        with pytest.raises(NetError, match=str(port)):
            async with open_cluster(tmp_path / "two", broker_port=port):
                pass


async def test_nothing_is_left_open_when_the_block_ends(tmp_path: Path) -> None:
    async def once() -> None:
        async with open_cluster(tmp_path, broker_count=2) as (cluster, client):
            await send(cluster, client, b"hello")

    await once()  # what Python itself opens on first use is open now
    before, tasks = open_descriptors(), len(asyncio.all_tasks())
    await once()
    assert open_descriptors() - before == set()
    assert len(asyncio.all_tasks()) == tasks
    assert not (tmp_path / "broker-a" / "abort").exists()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


async def test_brokers_are_stopped_and_started_one_by_one_on_their_ports(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, broker_count=2) as (cluster, client):
        address = cluster.brokers[1].address
        await send(cluster, client, b"kept", broker=1)
        await cluster.stop_broker("broker-b")
        assert [broker.identity.broker_name for broker in cluster.brokers] == ["broker-a"]
        await cluster.start_broker("broker-b")
        assert cluster.brokers[1].address == address
        client.drop(address)  # it waits for a while after the lost connection
        assert await pull(cluster, client, broker=1) == [b"kept"]
        with pytest.raises(ConfigError, match="broker-b runs already"):
            await cluster.start_broker("broker-b")
        with pytest.raises(ConfigError, match="broker-c does not run"):
            await cluster.stop_broker("broker-c")
        with pytest.raises(ConfigError, match="broker-a to broker-z"):
            await cluster.start_broker("broker-1")
