"""Consumer groups and offsets through `Admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from skyrocketmq import Admin, ConsumeResult, Message, MessageQueue, MessageView, Producer, PullConsumer, PushConsumer
from skyrocketmq.errors import ClientError, IllegalArgument, NoRoute, NotFound, PartialFailure
from skyrocketmq.model import ConsumeType, MessageModel
from tests.admin.ghost import ghost_broker
from tests.client.cluster import Cluster, until


async def send(cluster: Cluster, topic: str, count: int, *, queue_id: int | None = None, **fields: str) -> None:
    queue = None if queue_id is None else MessageQueue(topic, "broker-a", queue_id)
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        for number in range(count):
            message = Message(topic, str(number).encode(), **fields)  # type: ignore[arg-type]
            await producer.send(message, queue=queue)


@asynccontextmanager
async def consuming(cluster: Cluster, group: str, topic: str, tags: str = "*") -> AsyncIterator[list[MessageView]]:
    """A member of a group; gives the messages that it has handled."""
    handled: list[MessageView] = []
    consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first", persist_offsets_interval_s=0.2)

    @consumer.subscribe(topic, tags)
    async def take(message: MessageView) -> ConsumeResult:
        handled.append(message)
        return ConsumeResult.SUCCESS

    async with consumer:
        yield handled


class TestSettings:
    async def test_a_group_is_made_changed_and_deleted(self, two_brokers: Cluster, admin_of_two: Admin) -> None:
        groups = admin_of_two.groups
        made = await groups.create("readers", retry_count_max=5)
        assert [node.broker_name for node in made] == ["broker-a", "broker-b"]
        assert await groups.names() == ["readers"]
        assert "TOOLS_CONSUMER" in await groups.names(internal=True)
        changes = await groups.update("readers", consume_enabled=False)
        assert [
            (one.before.consume_enable, one.after.consume_enable, one.after.retry_max_times) for one in changes
        ] == [(True, False, 5)] * 2
        assert all(not config.consume_enable for config in (await groups.config("readers")).values())
        assert len(await groups.delete("readers")) == 2
        with pytest.raises(NotFound, match=r"there is no consumer group readers: asked broker-a \(.*groups.create"):
            await groups.config("readers")

    async def test_deleting_takes_the_retry_topic_along(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T")
        async with consuming(cluster, "readers", "T"):
            await admin.topics.route("%RETRY%readers")
        await admin.groups.delete("readers", remove_offsets=True)
        with pytest.raises(NoRoute):
            await admin.topics.route("%RETRY%readers")
        assert await admin.groups.names() == []

    async def test_a_group_that_nobody_knows(self, admin: Admin) -> None:
        for question in (admin.groups.progress, admin.groups.connections, admin.groups.delete, admin.groups.diagnose):
            with pytest.raises(NotFound, match="there is no consumer group nobody"):
                await question("nobody")

    async def test_an_illegal_name(self, admin: Admin) -> None:
        with pytest.raises(IllegalArgument, match=r"the group name 'a b' contains ' '"):
            await admin.groups.create("a b")


class TestMembers:
    async def test_members_and_what_they_do(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=2)
        async with consuming(cluster, "readers", "T", "A || B") as handled:
            await send(cluster, "T", 3, tags="A")
            await until(lambda: len(handled) == 3)
            connections = await admin.groups.connections("readers")
            (member,) = connections.members
            assert (member.version, [node.broker_name for node in member.nodes]) == ("V4_9_7", ["broker-a"])
            assert connections.consume_type is ConsumeType.CONSUME_PASSIVELY
            assert connections.message_model is MessageModel.CLUSTERING
            assert {one.topic: one.sub_string for one in await admin.groups.subscriptions("readers")} == {
                "T": "A || B",
                "%RETRY%readers": "*",
            }
            info = await admin.groups.running_info("readers", member.client_id)
            assert MessageQueue("T", "broker-a", 0) in info.mq_table
            offsets = await admin.groups.member_offsets("readers", "T")
            assert sum(offsets[member.client_id].values()) == 3
            assert await admin.groups.diagnose("readers") == []
            with pytest.raises(NotFound, match=f"has no member nobody: connected now is {member.client_id}"):
                await admin.groups.running_info("readers", "nobody")
        assert not (await admin.groups.connections("readers")).is_online

    async def test_members_that_subscribe_to_different_things_are_found(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T")
        async with consuming(cluster, "readers", "T", "A"), consuming(cluster, "readers", "T", "B"):
            findings = await admin.groups.diagnose("readers")
        assert len(findings) == 1
        assert "members of a group must subscribe to the same" in findings[0].text

    async def test_producers_of_a_topic(self, cluster: Cluster, admin: Admin) -> None:
        async with Producer("senders", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("T", b"x"))
            found = await admin.groups.producers("senders", "T")
            assert [client.client_id for client in found] == [producer.client_id]
            assert await admin.groups.producers("others", "T") == []


class TestProgress:
    async def test_how_far_a_group_is(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=2)
        async with consuming(cluster, "readers", "T") as handled:
            await send(cluster, "T", 4, queue_id=1)
            await until(lambda: len(handled) == 4)
            owner = (await admin.groups.connections("readers")).members[0].client_id
            with_members = await admin.groups.progress("readers", topic="T", members=True)
            assert [row.client_id for row in with_members.queues] == [owner, owner]
        await send(cluster, "T", 3, queue_id=1)
        progress = await admin.groups.progress("readers", topic="T")
        rows = {row.queue.queue_id: (row.broker_offset, row.consumer_offset, row.lag) for row in progress.queues}
        assert rows[1] == (7, 4, 3)
        assert progress.lag == 3
        assert progress.queues[1].last_consumed_at is not None
        (summary,) = await admin.groups.summaries()
        assert (summary.group, summary.member_count, summary.version, summary.lag) == ("readers", 0, None, 3)
        on_broker = {one.group: one for one in await admin.groups.progress_on_broker("broker-a")}
        assert on_broker["readers"].lag == 3
        spans = await admin.groups.time_spans("readers", "T")
        assert {span.queue.queue_id for span in spans} == {0, 1}
        assert await admin.topics.groups("T") == ["readers"]
        (use,) = [use for use in await admin.topics.uses() if use.topic == "T"]
        assert (use.clusters, use.groups) == (("DefaultCluster",), ("readers",))
        (row,) = await admin.traffic.of("T")
        assert (row.group, row.lag, row.in_count_24h >= 0) == ("readers", 3, True)
        assert {one.topic for one in await admin.traffic.all()} >= {"T"}

    async def test_a_broker_that_is_down_is_named(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T")
        async with consuming(cluster, "readers", "T") as handled:
            await send(cluster, "T", 1)
            await until(lambda: handled)
        async with ghost_broker(cluster.namesrv, topics=["T", "%RETRY%readers"]) as address:
            with pytest.raises(PartialFailure) as caught:
                await admin.groups.progress("readers")
            assert list(caught.value.failures) == [f"broker-z ({address})"]
            assert {row.queue.broker_name for row in caught.value.result.queues} == {"broker-a"}
            with pytest.raises(PartialFailure) as caught:
                await admin.groups.summaries()
            assert [summary.group for summary in caught.value.result] == ["readers"]


class TestOffsets:
    async def test_where_queues_begin_and_end(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        queue = MessageQueue("T", "broker-a", 0)
        before = datetime.now(UTC)
        await send(cluster, "T", 5, queue_id=0)
        assert await admin.offsets.earliest("T") == {queue: 0}
        assert await admin.offsets.latest("T") == {queue: 5}
        assert await admin.offsets.at("T", before - timedelta(hours=1)) == {queue: 0}
        assert await admin.offsets.at("T", before + timedelta(hours=1)) == {queue: 4}

    async def test_a_group_without_members_is_moved_by_storing(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        queue = MessageQueue("T", "broker-a", 0)
        async with consuming(cluster, "readers", "T") as handled:
            await send(cluster, "T", 5, queue_id=0)
            await until(lambda: len(handled) == 5)
        (change,) = await admin.offsets.reset("readers", "T", "earliest")
        assert (change.queue, change.before, change.after, change.through_members) == (queue, 5, 0, False)
        (change,) = await admin.offsets.reset("readers", "T", "latest", force=False)
        assert change.after == 0  # without force a group only goes back
        (change,) = await admin.offsets.reset("readers", "T", "latest")
        assert change.after == 5
        (change,) = await admin.offsets.set("readers", {queue: 2})
        assert (change.before, change.after) == (5, 2)
        assert await admin.offsets.committed("readers", "T") == {queue: 2}
        await admin.groups.create("others")
        await admin.offsets.clone("readers", "others", "T")
        assert await admin.offsets.committed("others", "T") == {queue: 2}

    async def test_a_group_with_members_is_moved_through_them(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        queue = MessageQueue("T", "broker-a", 0)
        async with consuming(cluster, "readers", "T") as handled:
            await send(cluster, "T", 3, queue_id=0)
            await until(lambda: len(handled) == 3)
        async with consuming(cluster, "readers", "T") as handled:
            with pytest.raises(ClientError, match=r"group readers is online .*stop its members, or use reset"):
                await admin.offsets.set("readers", {queue: 0})
            await send(cluster, "T", 1, queue_id=0)
            await until(lambda: len(handled) == 1)  # it has its queue
            (change,) = await admin.offsets.reset("readers", "T", "earliest")
            assert (change.after, change.through_members) == (0, True)
            await until(lambda: len(handled) == 5, seconds=30)

    async def test_mistakes(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        await admin.groups.create("readers")
        with pytest.raises(IllegalArgument, match="the offset 9 is not in queue T@broker-a:0, which has 0 to 0"):
            await admin.offsets.set("readers", {MessageQueue("T", "broker-a", 0): 9})
        with pytest.raises(NotFound, match="there is no queue T@broker-b:0: topic T is on broker-a"):
            await admin.offsets.set("readers", {MessageQueue("T", "broker-b", 0): 0})
        with pytest.raises(IllegalArgument, match="'soon' is none of 'earliest', 'latest' and a datetime"):
            await admin.offsets.reset("readers", "T", "soon")  # type: ignore[arg-type]
        with pytest.raises(NotFound, match="there is no consumer group nobody"):
            await admin.offsets.reset("nobody", "T", "latest")
        with pytest.raises(NotFound, match="group readers has not consumed topic T"):
            await admin.offsets.clone("readers", "others", "T")


async def test_a_group_that_pulls_is_listed_too(cluster: Cluster, admin: Admin) -> None:
    cluster.create_topic("T", queues=1)
    async with PullConsumer("pullers", namesrv=cluster.namesrv, topics=["T"]) as consumer:
        await consumer.commit(MessageQueue("T", "broker-a", 0), 0)
        connections = await admin.groups.connections("pullers")
        assert connections.consume_type is ConsumeType.CONSUME_ACTIVELY
