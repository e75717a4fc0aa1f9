"""Messages that are handed back while answers are lost: the group gets them again once, not once for each attempt."""

from __future__ import annotations

import asyncio

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.client.send_back import SendBack
from skyrocketmq.model import Message, MessageView
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.testing import FaultyDisk, LocalCluster
from skyrocketmq.testing.link import Direction
from tests.client.cluster import until


async def test_a_broker_that_is_silent_for_both_requests_and_the_copy_stores_one() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("T", queues=1)
        broker = cluster.brokers["broker-a"]
        broker.tables.topics.get_retry_topic("g", queue_count=1)
        seen: list[MessageView] = []
        consumer = PushConsumer("g", namesrv=cluster.namesrv, consume_from="first")
        consumer.subscribe("T", "*", seen.append)
        async with consumer, Producer("p", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("T", b"x"))
            await until(lambda: seen)
            send_back = SendBack(consumer._started().instance, "g", retry_count_max=16, timeout_s=0.2)
            cluster.link().stall(Direction.OUT)
            handing = asyncio.ensure_future(send_back.hand_back(seen[0], delay_level=5))
            await asyncio.sleep(0.6)  # both requests are given up by now, and the copy is on its way
            assert not handing.done()
            cluster.link().release()
            assert await handing
        copies = [broker.store.max_offset(SCHEDULE_TOPIC, level - 1) for level in range(1, 19)]
        assert copies[4] == 1, "for the request"
        assert sum(copies) == 1, "and none for what was repeated"


async def test_a_copy_that_is_not_durable_does_not_count() -> None:
    """The sync fails while a message is handed back: the copy is in the log, and a power cut may take it."""
    disk = FaultyDisk()
    async with LocalCluster(disk=disk, settings={"flushDiskType": "SYNC_FLUSH"}) as cluster:
        await cluster.create_topic("T", queues=1)
        cluster.brokers["broker-a"].tables.topics.get_retry_topic("g", queue_count=1)
        seen: list[MessageView] = []
        consumer = PushConsumer("g", namesrv=cluster.namesrv, consume_from="first")
        consumer.subscribe("T", "*", seen.append)
        async with consumer, Producer("p", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("T", b"x"))
            await until(lambda: seen)
            send_back = SendBack(consumer._started().instance, "g", retry_count_max=16)
            disk.fail("fdatasync", path="*/commitlog/*", times=1)
            assert not await send_back.hand_back(seen[0], delay_level=2)
