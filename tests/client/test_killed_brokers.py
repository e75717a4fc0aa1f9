"""Broker processes are killed, as by a power cut, and links are cut or go dead, while clients send and consume.

What the client promises then: every message that was acknowledged is consumed, from the place that its sender was told;
an orderly consumer skips nothing; no consumer is silent for more than 30 s; nor is any queue, once a trouble is over.

Six troubles in every run, half of them of either kind; `make soak` has ten minutes of them.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import MQError
from skyrocketmq.model import Message, MessageQueue, MessageView
from skyrocketmq.testing import Direction, FaultyLink
from tests.client.cluster import until
from tests.interop.ours import Broker, NameServer, running

TOPIC = "T"
BROKERS = ("broker-a", "broker-b")
QUEUES = 8  # of the topic, on both brokers
TROUBLES = 6  # at least, and for so long:
SOAK_S = float(os.environ.get("CLIENT_SOAK_SECONDS", "0"))
SEED = int(os.environ.get("CLIENT_SOAK_SEED", "5"))
SENDERS = 8
DEAD_S_MAX = 3.0  # of a link
SILENT_S_MAX = 30.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(400 + SOAK_S * 1.5, func_only=True),
]

Place = tuple[MessageQueue, int]


class Processes:
    """A name server and two brokers, each in a process of its own."""

    def __init__(self, namesrv: str, brokers: dict[str, Broker]) -> None:
        self.namesrv = namesrv
        self.brokers = brokers

    async def kill_and_start(self, name: str) -> None:
        """Returns when the broker is back, and the name server knows it."""
        broker = self.brokers[name]
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(0.3)  # long enough for clients to find nobody there
        await asyncio.to_thread(broker.start)


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    with ExitStack() as started:
        namesrv = started.enter_context(running(NameServer(tmp_path / "namesrv")))
        brokers = {
            name: started.enter_context(running(Broker(tmp_path / name, namesrv=namesrv.address, name=name)))
            for name in BROKERS
        }
        yield Processes(namesrv.address, brokers)


class Sending:
    """Senders that go on and on, and remember what was acknowledged, and where."""

    def __init__(self, namesrv: str, link: FaultyLink) -> None:
        self._producer = Producer("senders", namesrv=namesrv, link=link)
        self.acknowledged: dict[Place, bytes] = {}
        self.failure_count = 0
        self._is_stopped = False

    async def run(self) -> None:
        async with self._producer:
            await asyncio.gather(*(self._send(number) for number in range(SENDERS)))

    async def _send(self, sender: int) -> None:
        number = 0
        while not self._is_stopped:
            number += 1
            body = b"%d-%d" % (sender, number)
            try:
                result = await self._producer.send(Message(TOPIC, body))
                self.acknowledged[result.queue, result.queue_offset] = body
            except MQError:
                self.failure_count += 1
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        self._is_stopped = True


class Reading:
    """A consumer that remembers what came, from where, and in which order."""

    def __init__(self, group: str, namesrv: str, link: FaultyLink, *, orderly: bool) -> None:
        self.consumed: dict[Place, bytes] = {}
        self.orders: dict[MessageQueue, list[int]] = defaultdict(list)
        self.silent_s_max = 0.0
        self._heard_at: float | None = None
        self.consumer = PushConsumer(group, namesrv=namesrv, orderly=orderly, consume_from="first", link=link)
        self.consumer.subscribe(TOPIC, "*", self._handle)

    async def _handle(self, message: MessageView) -> None:
        now = time.monotonic()
        if self._heard_at is not None:
            self.silent_s_max = max(self.silent_s_max, now - self._heard_at)
        self._heard_at = now
        place = (message.queue, message.queue_offset)
        assert self.consumed.setdefault(place, message.body) == message.body, "a message has changed"
        self.orders[message.queue].append(message.queue_offset)

    async def hears_again(self) -> None:
        """Wait until something new has come from every queue."""
        seen = {queue: len(offsets) for queue, offsets in self.orders.items()}
        assert len(seen) == QUEUES, "not all queues have been heard before"
        await until(lambda: all(len(self.orders[queue]) > count for queue, count in seen.items()), seconds=SILENT_S_MAX)

    def check_order(self, *, rewinds_max: int) -> None:
        """A message may come again, and those after it too, once with each trouble; none is passed over."""
        for queue, offsets in self.orders.items():
            rewind_count = sum(later != earlier + 1 for earlier, later in pairwise(offsets))
            assert rewind_count <= rewinds_max, f"{queue} was begun anew {rewind_count} times"
            highest = -1
            for offset in offsets:
                assert offset <= highest + 1, f"{queue}: {offset} came after {highest}"
                highest = max(highest, offset)


class Troubles:
    """What happens to brokers and links; each method returns when all is well again."""

    def __init__(self, processes: Processes, links: list[FaultyLink]) -> None:
        self._processes = processes
        self._links = links
        self._chance = random.Random(SEED)
        self.counts: Counter[str] = Counter()

    async def make(self, number: int) -> None:
        """A killed broker and a bad link in turn."""
        choices = (self.cut, self.refuse, self.go_dead) if number % 2 else (self.kill,)
        trouble = self._chance.choice(choices)
        self.counts[trouble.__name__] += 1
        await trouble()

    async def kill(self) -> None:
        await self._processes.kill_and_start(self._chance.choice(BROKERS))

    async def cut(self) -> None:
        """The connections of one client break, or those of all."""
        links = self._chance.choice([self._links, [self._chance.choice(self._links)]])
        for link in links:
            link.cut()

    async def refuse(self) -> None:
        """Nobody can be reached for a while."""
        link = self._chance.choice(self._links)
        link.is_refusing = True
        link.cut()
        await asyncio.sleep(self._chance.uniform(0.0, DEAD_S_MAX))
        link.is_refusing = False

    async def go_dead(self) -> None:
        """Nothing arrives any more, and nobody is told; in the end the connection breaks."""
        link = self._chance.choice(self._links)
        link.stall(self._chance.choice(list(Direction)))
        await asyncio.sleep(self._chance.uniform(0.0, DEAD_S_MAX))
        link.cut()
        link.release()


async def test_killed_brokers_and_bad_links_lose_nothing_and_no_consumer_stays_silent(processes: Processes) -> None:
    links = [FaultyLink() for _ in range(3)]
    sending = Sending(processes.namesrv, links[0])
    orderly = Reading("in-order", processes.namesrv, links[1], orderly=True)
    readings = [Reading("as-they-come", processes.namesrv, links[2], orderly=False), orderly]
    troubles = Troubles(processes, links)
    async with AsyncExitStack() as opened:
        senders = asyncio.create_task(sending.run())
        for reading in readings:
            await opened.enter_async_context(reading.consumer)
        await until(lambda: all(len(reading.orders) == QUEUES for reading in readings), seconds=40)
        end = time.monotonic() + SOAK_S
        number = 0
        while number < TROUBLES or time.monotonic() < end:
            await troubles.make(number)
            await asyncio.gather(*(reading.hears_again() for reading in readings))
            number += 1
        sending.stop()
        await senders
        for reading in readings:
            await until(lambda: sending.acknowledged.keys() <= reading.consumed.keys(), seconds=SILENT_S_MAX)  # noqa: B023
    silent_s = max(reading.silent_s_max for reading in readings)
    print(f"{dict(troubles.counts)}: {len(sending.acknowledged):,} acknowledged, {sending.failure_count:,} failed;")
    print(f"the longest silence of a consumer {silent_s:.1f} s")
    assert silent_s < SILENT_S_MAX
    assert len(sending.acknowledged) > 50 * number
    assert sending.failure_count < len(sending.acknowledged) // 10
    for reading in readings:
        assert all(reading.consumed[place] == body for place, body in sending.acknowledged.items())
    orderly.check_order(rewinds_max=troubles.counts.total())
