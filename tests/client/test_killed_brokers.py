"""Broker processes are killed, as by a power cut, and started again, while clients send and consume.

What the client promises then: every message that was acknowledged is consumed, from the place that its sender was told;
an orderly consumer skips nothing; and once a broker is back, none of its queues stays silent for more than 30 s.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import MQError
from skyrocketmq.model import Message, MessageQueue, MessageView
from tests.client.cluster import until
from tests.interop.ours import Broker, NameServer, running

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(400, func_only=True)]

TOPIC = "T"
KILLS = 10
SENDERS = 8
SILENT_S_MAX = 30.0

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
            for name in ("broker-a", "broker-b")
        }
        yield Processes(namesrv.address, brokers)


class Sending:
    """Senders that go on and on, and remember what was acknowledged, and where."""

    def __init__(self, namesrv: str) -> None:
        self._producer = Producer("senders", namesrv=namesrv)
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

    def __init__(self, group: str, namesrv: str, *, orderly: bool) -> None:
        self.consumed: dict[Place, bytes] = {}
        self.orders: dict[MessageQueue, list[int]] = defaultdict(list)
        self.consumer = PushConsumer(group, namesrv=namesrv, orderly=orderly, consume_from="first")
        self.consumer.subscribe(TOPIC, "*", self._handle)

    async def _handle(self, message: MessageView) -> None:
        place = (message.queue, message.queue_offset)
        assert self.consumed.setdefault(place, message.body) == message.body, "a message has changed"
        self.orders[message.queue].append(message.queue_offset)

    async def hears_again(self, broker: str) -> float:
        """Wait until something new has come from every queue of a broker; how long that took."""
        began = time.monotonic()
        seen = {queue: len(offsets) for queue, offsets in self.orders.items() if queue.broker_name == broker}
        assert seen, "nothing has come from this broker yet"
        await until(lambda: all(len(self.orders[queue]) > count for queue, count in seen.items()), seconds=SILENT_S_MAX)
        return time.monotonic() - began

    def check_order(self) -> None:
        """A message may come again, and those after it too; none is passed over."""
        for queue, offsets in self.orders.items():
            highest = -1
            for offset in offsets:
                assert offset <= highest + 1, f"{queue}: {offset} came after {highest}"
                highest = max(highest, offset)


async def test_brokers_killed_ten_times_lose_nothing_and_no_consumer_stays_silent(processes: Processes) -> None:
    sending = Sending(processes.namesrv)
    orderly = Reading("in-order", processes.namesrv, orderly=True)
    readings = [Reading("as-they-come", processes.namesrv, orderly=False), orderly]
    async with AsyncExitStack() as opened:
        senders = asyncio.create_task(sending.run())
        for reading in readings:
            await opened.enter_async_context(reading.consumer)
        await until(lambda: all(len(reading.orders) == 8 for reading in readings), seconds=40)
        for number in range(KILLS):
            name = "broker-a" if number % 2 else "broker-b"
            await processes.kill_and_start(name)
            silent_s = await asyncio.gather(*(reading.hears_again(name) for reading in readings))
            assert max(silent_s) < SILENT_S_MAX
        sending.stop()
        await senders
        await until(
            lambda: all(sending.acknowledged.keys() <= reading.consumed.keys() for reading in readings),
            seconds=SILENT_S_MAX,
        )
    assert len(sending.acknowledged) > 100 * KILLS
    assert sending.failure_count < len(sending.acknowledged) // 10
    for reading in readings:
        assert all(reading.consumed[place] == body for place, body in sending.acknowledged.items())
    orderly.check_order()
