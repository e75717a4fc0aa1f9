"""Topics through `Admin`: listing, making, changing, deleting, and what goes wrong."""

from __future__ import annotations

import pytest

from skyrocketmq import Message, Producer
from skyrocketmq.admin import Admin, BrokerNode
from skyrocketmq.errors import BrokerError, IllegalArgument, NoRoute, NotFound, PartialFailure
from skyrocketmq.model import MessageQueue
from tests.admin.ghost import ghost_broker
from tests.client.cluster import Cluster


async def test_a_topic_is_made_on_all_brokers_and_known_at_once(two_brokers: Cluster, admin_of_two: Admin) -> None:
    made = await admin_of_two.topics.create("Orders", queues=3, permission="RW")
    assert [node.broker_name for node in made] == ["broker-a", "broker-b"]
    route = await admin_of_two.topics.route("Orders")
    assert {(data.broker_name, data.read_queue_nums, data.perm) for data in route.queue_datas} == {
        ("broker-a", 3, 6),
        ("broker-b", 3, 6),
    }
    assert await admin_of_two.topics.clusters("Orders") == ["DefaultCluster"]
    assert len(await admin_of_two.topics.queues("Orders")) == 6


async def test_a_topic_is_made_on_one_broker_by_name_or_address(two_brokers: Cluster, admin_of_two: Admin) -> None:
    (by_name,) = await admin_of_two.topics.create("ByName", broker="broker-b")
    (by_address,) = await admin_of_two.topics.create("ByAddress", broker=two_brokers.brokers["broker-b"].address)
    assert by_name == by_address
    assert by_name.broker_name == "broker-b"
    configs = await admin_of_two.topics.configs()
    assert {node.broker_name: "ByName" in topics for node, topics in configs.items()} == {
        "broker-a": False,
        "broker-b": True,
    }


async def test_names_leave_out_what_is_internal_unless_asked(cluster: Cluster, admin: Admin) -> None:
    await admin.topics.create("Orders")
    await admin.topics.create("%RETRY%readers")
    assert await admin.topics.names() == ["Orders"]
    assert await admin.topics.names(cluster="DefaultCluster") == ["Orders"]
    everything = await admin.topics.names(internal=True)
    assert {"Orders", "%RETRY%readers", "TBW102", "broker-a", "DefaultCluster"} <= set(everything)
    assert {"TBW102", "broker-a", "DefaultCluster"} <= set(await admin.topics.system_names())


async def test_stats_count_the_messages_of_each_queue(cluster: Cluster, admin: Admin) -> None:
    await admin.topics.create("Orders", queues=2)
    queue = MessageQueue("Orders", "broker-a", 1)
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        for _ in range(3):
            await producer.send(Message("Orders", b"x"), queue=queue)
    stats = await admin.topics.stats("Orders")
    assert [(row.queue.queue_id, row.min_offset, row.max_offset) for row in stats.queues] == [(0, 0, 0), (1, 0, 3)]
    assert stats.message_count == 3
    assert stats.queues[0].last_stored_at is None
    assert stats.queues[1].last_stored_at is not None


async def test_an_update_changes_only_what_is_given(two_brokers: Cluster, admin_of_two: Admin) -> None:
    await admin_of_two.topics.create("Orders", queues=2, broker="broker-a")
    await admin_of_two.topics.create("Orders", queues=5, broker="broker-b")
    changes = await admin_of_two.topics.update("Orders", permission="R")
    assert [(change.node.broker_name, change.after.perm, change.after.write_queue_nums) for change in changes] == [
        ("broker-a", 4, 2),
        ("broker-b", 4, 5),
    ]
    (change,) = await admin_of_two.topics.update("Orders", write_queues=9, broker="broker-b")
    assert change.before is not None
    assert (change.before.write_queue_nums, change.after.write_queue_nums, change.after.perm) == (5, 9, 4)


async def test_a_deleted_topic_is_gone_from_brokers_and_name_servers(two_brokers: Cluster, admin_of_two: Admin) -> None:
    await admin_of_two.topics.create("Orders")
    assert len(await admin_of_two.topics.delete("Orders")) == 2
    with pytest.raises(NoRoute, match=f"no route for topic Orders: asked name server {two_brokers.namesrv}"):
        await admin_of_two.topics.route("Orders")
    assert await admin_of_two.topics.names() == []
    assert all("Orders" not in topics for topics in (await admin_of_two.topics.configs()).values())


async def test_an_ordered_topic_fixes_its_queues_at_the_name_servers(two_brokers: Cluster, admin_of_two: Admin) -> None:
    await admin_of_two.topics.create("Orders", queues=4, ordered=True)
    assert await admin_of_two.topics.order("Orders") == "broker-a:4;broker-b:4"
    await admin_of_two.topics.create("Orders", queues=6, ordered=True, broker="broker-b")
    assert await admin_of_two.topics.order("Orders") == "broker-a:4;broker-b:6"
    await admin_of_two.topics.set_order("Orders", "broker-a:1")
    assert await admin_of_two.topics.order("Orders") == "broker-a:1"
    await admin_of_two.topics.delete_order("Orders")
    assert await admin_of_two.topics.order("Orders") is None
    with pytest.raises(IllegalArgument, match="'broker-a' is not a broker and its number of queues"):
        await admin_of_two.topics.set_order("Orders", "broker-a")


async def test_queues_are_divided_as_clients_would(cluster: Cluster, admin: Admin) -> None:
    await admin.topics.create("Orders", queues=5)
    shares = await admin.topics.allocation("Orders", ["10.0.0.2", "10.0.0.1"])
    assert {client: [queue.queue_id for queue in queues] for client, queues in shares.items()} == {
        "10.0.0.1": [0, 1, 2],
        "10.0.0.2": [3, 4],
    }


async def test_a_broker_that_is_down_is_named_and_the_others_are_done(cluster: Cluster, admin: Admin) -> None:
    await admin.topics.create("Orders", queues=2)
    alive = BrokerNode("DefaultCluster", "broker-a", 0, cluster.brokers["broker-a"].address)
    async with ghost_broker(cluster.namesrv, topics=["Orders"]) as address:
        with pytest.raises(PartialFailure, match="create topic Orders: 1 of 2 failed") as caught:
            await admin.topics.create("Orders", queues=4)
        assert list(caught.value.failures) == [f"broker-z ({address})"]
        assert caught.value.result == [alive]
        with pytest.raises(PartialFailure, match=f"no connection to {address}") as caught:
            await admin.topics.stats("Orders")
        assert [row.queue.broker_name for row in caught.value.result.queues] == ["broker-a"] * 4


async def test_a_broker_without_master_does_not_count_as_done(cluster: Cluster, admin: Admin) -> None:
    async with ghost_broker(cluster.namesrv, broker_id=1):
        with pytest.raises(PartialFailure, match="the broker broker-z has no master now"):
            await admin.topics.create("Orders")


class TestMistakes:
    async def test_an_illegal_name(self, admin: Admin) -> None:
        with pytest.raises(IllegalArgument, match=r"contains '\.'; allowed are letters"):
            await admin.topics.create("a.b")

    async def test_a_system_topic(self, admin: Admin) -> None:
        with pytest.raises(BrokerError, match="TBW102"):
            await admin.topics.create("TBW102")

    async def test_an_unknown_broker(self, admin: Admin) -> None:
        with pytest.raises(NotFound, match="there is no broker broker-z: the name servers know broker-a"):
            await admin.topics.create("Orders", broker="broker-z")

    async def test_an_unknown_cluster(self, admin: Admin) -> None:
        with pytest.raises(NotFound, match="there is no cluster Other: the name servers know DefaultCluster"):
            await admin.topics.create("Orders", cluster="Other")

    async def test_an_unknown_topic(self, admin: Admin) -> None:
        for question in (admin.topics.stats, admin.topics.groups, admin.topics.delete, admin.topics.queues):
            with pytest.raises(NoRoute, match="no route for topic Orders: asked name server"):
                await question("Orders")

    async def test_a_topic_that_is_not_on_that_broker(self, two_brokers: Cluster, admin_of_two: Admin) -> None:
        await admin_of_two.topics.create("Orders", broker="broker-a")
        with pytest.raises(NotFound, match=r"topic Orders is not on broker-b, but on broker-a \("):
            await admin_of_two.topics.update("Orders", permission="R", broker="broker-b")

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"permission": "Z"}, "the permission 'Z' is none of R, W, RW"),
            ({"permission": 8}, "the permission 8 is none of 2"),
            ({"queues": 0}, "0 queues: a topic has 1 to 65535"),
        ],
        ids=["letters", "number", "queues"],
    )
    async def test_impossible_settings(self, admin: Admin, arguments: dict[str, object], text: str) -> None:
        with pytest.raises(IllegalArgument, match=text):
            await admin.topics.create("Orders", **arguments)  # type: ignore[arg-type]
