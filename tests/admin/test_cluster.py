"""Brokers and name servers through `Admin`: figures, configuration, permissions, cleaning, replicas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from skyrocketmq import Message, Producer
from skyrocketmq.admin import Admin
from skyrocketmq.admin.runtime import read_runtime
from skyrocketmq.errors import BrokerError, ClientError, ConnectFailed, IllegalArgument, NotFound
from tests.admin.ghost import ghost_address, ghost_broker
from tests.client.cluster import Cluster


async def test_an_overview_has_every_broker_with_its_figures(two_brokers: Cluster, admin_of_two: Admin) -> None:
    async with Producer("senders", namesrv=two_brokers.namesrv) as producer:
        await producer.send(Message("T", b"x"))
    states = await admin_of_two.cluster.overview()
    assert [(state.node.broker_name, state.node.broker_id) for state in states] == [("broker-a", 0), ("broker-b", 0)]
    for state in states:
        assert state.runtime is not None
        assert state.runtime.version == "V4_9_7"
        assert state.runtime.booted_at is not None
        assert abs(datetime.now(UTC) - state.runtime.booted_at) < timedelta(minutes=1)
        assert state.runtime.log_max_offset is not None
        assert state.runtime.figures["brokerVersionDesc"] == "V4_9_7"
    assert sum(state.runtime.put_count_today or 0 for state in states if state.runtime) == 1
    assert list(await admin_of_two.cluster.clusters()) == ["DefaultCluster"]


async def test_a_broker_that_is_down_is_in_the_overview_with_its_failure(cluster: Cluster, admin: Admin) -> None:
    async with ghost_broker(cluster.namesrv) as address:
        alive, dead = await admin.cluster.overview()
        assert alive.failure is None
        assert (dead.node.address, dead.runtime) == (address, None)
        assert isinstance(dead.failure, ConnectFailed)
        with pytest.raises(ConnectFailed, match=address):
            await admin.brokers.runtime("broker-z")


def test_figures_that_are_missing_or_odd_are_none() -> None:
    runtime = read_runtime({"putTps": "1.5 2 3", "bootTimestamp": "soon", "commitLogMaxOffset": "0 B"})
    assert (runtime.put_tps, runtime.booted_at, runtime.log_max_offset, runtime.get_tps) == (1.5, None, 0, None)


async def test_the_configuration_of_a_broker_is_read_and_changed(two_brokers: Cluster, admin_of_two: Admin) -> None:
    assert (await admin_of_two.brokers.config("broker-a"))["brokerName"] == "broker-a"
    changed = await admin_of_two.brokers.update_config({"fileReservedTime": "48"})
    assert [node.broker_name for node in changed] == ["broker-a", "broker-b"]
    for name in ("broker-a", "broker-b"):
        assert (await admin_of_two.brokers.config(name))["fileReservedTime"] == "48"
    await admin_of_two.brokers.update_config({"fileReservedTime": "24"}, broker="broker-b")
    assert (await admin_of_two.brokers.config("broker-a"))["fileReservedTime"] == "48"


async def test_a_configuration_that_cannot_be_is_refused_with_a_reason(admin: Admin) -> None:
    with pytest.raises(BrokerError, match="fileReservedTime"):
        await admin.brokers.update_config({"fileReservedTime": "soon"})
    with pytest.raises(IllegalArgument, match="no key is given to change"):
        await admin.brokers.update_config({})


async def test_the_write_permission_of_a_broker_is_taken_and_given_back(
    two_brokers: Cluster, admin_of_two: Admin
) -> None:
    await admin_of_two.topics.create("Orders")

    async def permissions() -> dict[str, int]:
        return {data.broker_name: data.perm for data in (await admin_of_two.topics.route("Orders")).queue_datas}

    wiped = await admin_of_two.cluster.wipe_write_permission("broker-b")
    assert list(wiped) == [two_brokers.namesrv]
    assert wiped[two_brokers.namesrv] > 0
    assert await permissions() == {"broker-a": 6, "broker-b": 4}
    given = await admin_of_two.cluster.add_write_permission("broker-b")
    assert given == wiped
    assert await permissions() == {"broker-a": 6, "broker-b": 6}
    with pytest.raises(NotFound, match="there is no broker broker-z"):
        await admin_of_two.cluster.wipe_write_permission("broker-z")


async def test_brokers_clean_what_they_are_told_to(two_brokers: Cluster, admin_of_two: Admin) -> None:
    brokers = admin_of_two.brokers
    for clean in (brokers.clean_expired_queues, brokers.clean_unused_topics, brokers.delete_expired_log_files):
        assert [node.broker_name for node in await clean()] == ["broker-a", "broker-b"]
        assert [node.broker_name for node in await clean(broker="broker-b")] == ["broker-b"]
        assert len(await clean(cluster="DefaultCluster")) == 2


async def test_replicas_say_how_far_they_are(cluster: Cluster, admin: Admin) -> None:
    (only,) = await admin.brokers.replicas("broker-a")
    assert (only.node.is_master, only.behind_bytes) == (True, 0)


async def test_connected_producers_are_listed(cluster: Cluster, admin: Admin) -> None:
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        await producer.send(Message("T", b"x"))
        found = [client for client in await admin.brokers.producers("broker-a") if client.group == "senders"]
        assert [(client.client_id, client.version) for client in found] == [(producer.client_id, "V4_9_7")]


async def test_name_servers_keep_settings(cluster: Cluster, admin: Admin) -> None:
    await admin.key_values.put("space", "a", "1")
    await admin.key_values.put("space", "b", "2")
    assert await admin.key_values.get("space", "a") == "1"
    assert await admin.key_values.all("space") == {"a": "1", "b": "2"}
    await admin.key_values.delete("space", "a")
    assert await admin.key_values.find("space", "a") is None
    with pytest.raises(NotFound, match=f"there is no key a in namespace space: asked {cluster.namesrv}"):
        await admin.key_values.get("space", "a")
    assert await admin.key_values.all("nowhere") == {}


async def test_the_configuration_of_name_servers_is_read_and_changed(cluster: Cluster, admin: Admin) -> None:
    assert admin.name_servers.addresses == (cluster.namesrv,)
    await admin.name_servers.update_config({"orderMessageEnable": "true"})
    assert (await admin.name_servers.config())[cluster.namesrv]["orderMessageEnable"] == "true"


class TestMistakes:
    async def test_no_name_server_there(self) -> None:
        async with ghost_address() as address, Admin(namesrv=address, timeout_s=1.0) as admin:
            with pytest.raises(ConnectFailed, match=f"no name server could be asked. {address}: .*is namesrv right"):
                await admin.cluster.nodes()

    async def test_not_started(self) -> None:
        with pytest.raises(ClientError, match="is not started: use it inside 'async with'"):
            _ = Admin(namesrv="127.0.0.1:1").topics

    def test_no_address(self) -> None:
        with pytest.raises(IllegalArgument, match="localhost"):
            Admin(namesrv="localhost")

    async def test_an_unregistered_address_is_asked_all_the_same(self, cluster: Cluster, admin: Admin) -> None:
        async with ghost_address() as address:
            with pytest.raises(ConnectFailed, match=f"no connection to {address}"):
                await admin.brokers.config(address)
