from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.pulls import PullStatus
from skyrocketmq.errors import ClientError, IllegalArgument, NoRoute
from skyrocketmq.model import Message, MessageQueue
from skyrocketmq.wire.codes import RequestCode
from tests.client.cluster import Cluster, until
from tests.client.scripted import open_scripted
from tests.client.test_push_consumer import numbered, send_all


class TestReading:
    async def test_a_queue_is_read_from_any_offset_on(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with (
            Producer("senders", namesrv=cluster.namesrv) as producer,
            PullConsumer("readers", namesrv=cluster.namesrv) as consumer,
        ):
            for body in numbered(50):
                await producer.send(Message("T", body))
            (queue,) = await consumer.queues("T")
            result = await consumer.pull(queue, 0)
            assert result.status is PullStatus.FOUND
            assert [message.body for message in result.messages] == numbered(50)[:32]
            assert (result.next_offset, result.min_offset, result.max_offset) == (32, 0, 50)
            result = await consumer.pull(queue, 32, count_max=5)
            assert [message.body for message in result.messages] == numbered(50)[32:37]
            assert (await consumer.pull(queue, 50)).status is PullStatus.NO_NEW_MESSAGE
            result = await consumer.pull(queue, 90)
            assert (result.status, result.next_offset) == (PullStatus.OFFSET_ILLEGAL, 50)

    async def test_tags_filter_a_pull(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        for tag in ("A", "B"):
            await send_all(cluster, [tag.encode()], tags=tag)
        async with PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            (queue,) = await consumer.queues("T")
            result = await consumer.pull(queue, 0, expression="B")
            assert [message.body for message in result.messages] == [b"B"]
            assert (await consumer.pull(queue, 0, expression="C")).status is PullStatus.NO_MATCHED_MESSAGE

    async def test_a_pull_that_waits_gets_the_message_that_comes(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            (queue,) = await consumer.queues("T")
            waiting = asyncio.create_task(consumer.pull(queue, 0, wait=True))
            await send_all(cluster, [b"x"])
            assert [message.body for message in (await waiting).messages] == [b"x"]

    async def test_offsets_are_kept_for_the_group(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        await send_all(cluster, numbered(10))
        queue = MessageQueue("T", "broker-a", 0)
        async with PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            await consumer.commit(queue, 7)
            assert cluster.stored_offset("readers", "T", 0) == 7
        async with PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            assert await consumer.committed(queue) == 7
            assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 10)
            assert await consumer.offset_at(queue, datetime(2000, 1, 1, tzinfo=UTC)) == 0

    async def test_a_message_can_be_sent_back(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        await send_all(cluster, [b"x"])
        async with PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            (queue,) = await consumer.queues("T")
            (message,) = (await consumer.pull(queue, 0)).messages
            await consumer.send_back(message, delay_level=-1)
        assert cluster.brokers["broker-a"].store.max_offset("%DLQ%readers", 0) == 1

    async def test_requests_say_that_they_are_a_pull_consumers(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"a")
            async with PullConsumer("readers", namesrv=scripted.namesrv) as consumer:
                assert consumer.client_id.endswith("@STREAM")
                await consumer.pull(MessageQueue("T", "broker-a", 0), 0)
            pull = next(frame for frame in broker.received if frame.code == RequestCode.PULL_MESSAGE)
            assert pull.ext == {
                "consumerGroup": "readers", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
                "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "20000", "subscription": "*",
                "subVersion": "0", "expressionType": "TAG", "bname": "broker-a", "ReqT": "0",
            }  # fmt: skip


class TestDividing:
    async def test_topics_named_at_the_start_are_divided_among_members(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=4)
        heard: list[tuple[str, int, int]] = []

        def listen(topic: str, queues: Collection[MessageQueue], own: Collection[MessageQueue]) -> None:
            heard.append((topic, len(queues), len(own)))

        async with PullConsumer("readers", namesrv=cluster.namesrv, topics=["T"], on_queues_changed=listen) as first:
            await until(lambda: len(first.assigned("T")) == 4)
            async with PullConsumer("readers", namesrv=cluster.namesrv, topics=["T"]) as second:
                await until(lambda: len(first.assigned("T")) == len(second.assigned("T")) == 2)
                assert not set(first.assigned("T")) & set(second.assigned("T"))
            await until(lambda: len(first.assigned("T")) == 4)
        assert heard == [("T", 4, 4), ("T", 4, 2), ("T", 4, 4)]


class TestRefusals:
    async def test_a_topic_that_nobody_knows_has_no_queues(self, cluster: Cluster) -> None:
        async with PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            with pytest.raises(NoRoute, match="no route for topic T"):
                await consumer.queues("T")

    async def test_a_consumer_that_is_not_started_says_so(self) -> None:
        with pytest.raises(ClientError, match="not started"):
            await PullConsumer("readers", namesrv="127.0.0.1:1").queues("T")

    def test_a_wait_that_is_longer_than_its_limit_is_refused(self) -> None:
        with pytest.raises(IllegalArgument, match="hold_timeout_s"):
            PullConsumer("readers", namesrv="127.0.0.1:1", hold_s=20, hold_timeout_s=10)
