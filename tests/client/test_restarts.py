"""The broker goes and comes back, connections break: nothing that was acknowledged is missing, and order holds."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from itertools import pairwise

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import MQError
from skyrocketmq.model import Message, MessageQueue, MessageView
from skyrocketmq.testing import FaultyLink
from tests.client.cluster import Cluster, until


class Sending:
    """A producer that sends on and on, and remembers what was acknowledged."""

    def __init__(self, cluster: Cluster, *, link: FaultyLink | None = None) -> None:
        self._producer = (
            Producer("senders", namesrv=cluster.namesrv)
            if link is None
            else Producer("senders", namesrv=cluster.namesrv, link=link)
        )
        self.acknowledged: set[bytes] = set()
        self.failure_count = 0
        self._stopped = False

    async def run(self) -> None:
        number = 0
        async with self._producer:
            while not self._stopped:
                number += 1
                body = b"%d" % number
                try:
                    await self._producer.send(Message("T", body))
                    self.acknowledged.add(body)
                except MQError:
                    self.failure_count += 1
                await asyncio.sleep(0.002)

    def stop(self) -> None:
        self._stopped = True


class Reading:
    """A handler that remembers what came, when the last came, and in which order."""

    def __init__(self) -> None:
        self.bodies: set[bytes] = set()
        self.offsets: dict[MessageQueue, list[int]] = defaultdict(list)

    async def __call__(self, message: MessageView) -> None:
        self.bodies.add(message.body)
        self.offsets[message.queue].append(message.queue_offset)

    def check_order(self, *, rewinds_max: int) -> None:
        """None is passed over, and messages come again only after a disturbance, from one place on."""
        for offsets in self.offsets.values():
            highest = -1
            for offset in offsets:
                assert offset <= highest + 1, "a message was skipped"
                highest = max(highest, offset)
            assert sum(later != earlier + 1 for earlier, later in pairwise(offsets)) <= rewinds_max


@pytest.mark.slow
@pytest.mark.parametrize("orderly", [False, True])
async def test_ten_restarts_of_a_broker_lose_nothing(two_brokers: Cluster, orderly: bool) -> None:
    two_brokers.create_topic("T", queues=2)
    reading = Reading()
    consumer = PushConsumer("readers", namesrv=two_brokers.namesrv, orderly=orderly)
    consumer.subscribe("T", "*", reading)
    sending = Sending(two_brokers)
    async with consumer:
        task = asyncio.create_task(sending.run())
        await until(lambda: len(reading.bodies) > 20)
        for number in range(10):
            name = "broker-a" if number % 2 else "broker-b"
            await two_brokers.stop_broker(name)
            await asyncio.sleep(0.1)
            await two_brokers.start_broker(name)
            # Both brokers' messages come again: within seconds, although the routes are asked for every 30 s only.
            seen = {queue: len(offsets) for queue, offsets in reading.offsets.items()}
            await until(
                lambda: all(
                    len(reading.offsets[queue]) > count
                    for queue, count in seen.items()  # noqa: B023
                    if queue.topic == "T"
                ),
                seconds=20,
            )
        sending.stop()
        await task
        await until(lambda: sending.acknowledged <= reading.bodies, seconds=20)
    assert len(sending.acknowledged) > 100
    if orderly:
        reading.check_order(rewinds_max=10)


@pytest.mark.slow
@pytest.mark.parametrize("orderly", [False, True])
async def test_connections_that_break_all_the_time_lose_nothing(cluster: Cluster, orderly: bool) -> None:
    cluster.create_topic("T", queues=2)
    chance = random.Random(7)
    links = [FaultyLink() for _ in range(3)]
    reading = Reading()
    members = [
        PushConsumer("readers", namesrv=cluster.namesrv, orderly=orderly, link=links[number]) for number in range(2)
    ]
    for member in members:
        member.subscribe("T", "*", reading)
    sending = Sending(cluster, link=links[2])
    async with members[0], members[1]:
        task = asyncio.create_task(sending.run())
        await until(lambda: len(reading.bodies) > 20)
        for _ in range(25):
            link = chance.choice(links)
            if link.connections:
                chance.choice(link.connections).cut()
            await asyncio.sleep(chance.uniform(0.0, 0.2))
        sending.stop()
        await task
        await until(lambda: sending.acknowledged <= reading.bodies, seconds=20)
    if orderly:
        reading.check_order(rewinds_max=25)
