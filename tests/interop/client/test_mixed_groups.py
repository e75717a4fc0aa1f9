"""A Java and a Python member in one group: they never meet, and still must agree who reads which queue."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import pytest

from skyrocketmq.client.allocation import AllocationStrategy, ConsistentHash, average, average_by_circle, share_of
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import Message, MessageQueue
from skyrocketmq.model.names import retry_topic
from tests.interop.apache import Apache
from tests.interop.client.journal import Journal
from tests.interop.client.member import running_member
from tests.interop.client.support import as_queue, client_test, fresh_group, queues_of, until
from tests.interop.clusters import BROKER_NAMES, Cluster
from tests.interop.driver import Driver, JavaError
from tests.interop.driver import PushConsumer as JavaConsumer

pytestmark = client_test

REBALANCE_S = 20.0  # both rebalance at least this often
STRATEGIES: Mapping[str, AllocationStrategy] = {
    "average": average,
    "circle": average_by_circle,
    "hash": ConsistentHash(),
}


class Group:
    """The members of a group in both languages, watched: who holds which queue, and for how long that is wrong."""

    def __init__(self, java: Driver, cluster: Cluster, topic: str, strategy: str) -> None:
        self.name = fresh_group()
        self.journal = Journal()
        self.longest_shared_s = 0.0
        self.longest_unowned_s = 0.0
        self._java = java
        self._cluster = cluster
        self._topic = topic
        self._strategy = strategy
        self._queues = queues_of(topic) | {MessageQueue(retry_topic(self.name), broker, 0) for broker in BROKER_NAMES}
        self._pythons: dict[str, PushConsumer] = {}
        self._javas: dict[str, JavaConsumer] = {}
        self._held: dict[str, set[MessageQueue]] = {}
        self._wrong_since: dict[tuple[str, MessageQueue], float] = {}

    async def join_python(self) -> str:
        consumer = PushConsumer(
            self.name,
            namesrv=self._cluster.namesrv,
            consume_from="first",
            allocation=STRATEGIES[self._strategy],
        )
        consumer.subscribe(self._topic, "*", self.journal.handler("python"))
        await consumer.start()
        self._pythons[consumer.client_id] = consumer
        return consumer.client_id

    async def join_java(self) -> str:
        consumer = await asyncio.to_thread(
            lambda: self._java.push_consumer(
                self.name, namesrv=self._cluster.namesrv, topic=self._topic, from_="first", strategy=self._strategy
            )
        )
        self._javas[consumer.client_id] = consumer
        return consumer.client_id

    async def javas_texts(self) -> list[str]:
        """What the Java members have received."""
        received = [await asyncio.to_thread(consumer.received) for consumer in self._javas.values()]
        return [one.text for messages in received for one in messages]

    async def leave(self, client_id: str) -> None:
        if client_id in self._pythons:
            await self._pythons.pop(client_id).close()
        else:
            await asyncio.to_thread(self._javas.pop(client_id).stop)

    async def close(self) -> None:
        for client_id in [*self._pythons, *self._javas]:
            await self.leave(client_id)

    def is_divided(self, *, retries_too: bool = True) -> bool:
        """Whether every member holds just the queues that the strategy gives it."""
        members = [*self._pythons, *self._javas]
        if set(self._held) != set(members):
            return False
        for topic in [self._topic, retry_topic(self.name)] if retries_too else [self._topic]:
            queues = [queue for queue in self._queues if queue.topic == topic]
            for member in members:
                share = share_of(member, queues, members, strategy=STRATEGIES[self._strategy])
                if {queue for queue in self._held[member] if queue.topic == topic} != set(share):
                    return False
        return True

    async def watch(self) -> None:
        """Look again and again who holds what."""
        while True:
            held = {client_id: set(consumer.queues) for client_id, consumer in self._pythons.items()}
            for client_id, consumer in list(self._javas.items()):
                try:
                    held[client_id] = {as_queue(queue) for queue in await asyncio.to_thread(consumer.assignment)}
                except JavaError:
                    assert client_id not in self._javas  # it has left since
            self._held = held
            self._measure(Counter(queue for queues in held.values() for queue in queues))
            await asyncio.sleep(0.05)

    def _measure(self, owners: Counter[MessageQueue]) -> None:
        now = time.monotonic()
        for queue in self._queues:
            for kind, is_wrong in (("shared", owners[queue] > 1), ("unowned", owners[queue] == 0)):
                if not is_wrong:
                    self._wrong_since.pop((kind, queue), None)
                    continue
                lasted_s = now - self._wrong_since.setdefault((kind, queue), now)
                if kind == "shared":
                    self.longest_shared_s = max(self.longest_shared_s, lasted_s)
                else:
                    self.longest_unowned_s = max(self.longest_unowned_s, lasted_s)


@asynccontextmanager
async def watched(group: Group) -> AsyncIterator[None]:
    watching = asyncio.create_task(group.watch())
    try:
        yield
    finally:
        watching.cancel()
        outcome = await asyncio.gather(watching, return_exceptions=True)
        await group.close()
        assert isinstance(outcome[0], asyncio.CancelledError), outcome[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_members_of_both_languages_agree_on_the_division_of_queues(
    java: Driver, cluster: Cluster, producer: Producer, topic: str, strategy: str
) -> None:
    group = Group(java, cluster, topic, strategy)

    async def settled() -> None:
        await until(group.is_divided, seconds=REBALANCE_S + 5, what="all hold their share and nothing else")

    async with watched(group):
        first_python = await group.join_python()
        await settled()
        first_java = await group.join_java()
        await settled()
        await group.join_python()
        await settled()
        second_java = await group.join_java()
        await settled()
        await group.leave(first_python)
        await settled()
        await group.leave(first_java)
        await settled()
        await group.leave(second_java)
        await settled()

    assert group.longest_shared_s < REBALANCE_S
    assert group.longest_unowned_s < REBALANCE_S


async def test_members_of_both_languages_consume_everything_between_them(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = Group(java, cluster, topic, "average")
    async with watched(group):
        await group.join_java()
        await group.join_python()
        # The retry topic is made for the first member, after it has asked for routes; Java's asks again in 30 s.
        is_divided = partial(group.is_divided, retries_too=False)
        await until(is_divided, seconds=REBALANCE_S + 5, what="all hold their share and nothing else")
        await asyncio.gather(*(producer.send(Message(topic, str(n).encode())) for n in range(400)))
        deadline = time.monotonic() + 30
        while len(javas := await group.javas_texts()) + len(group.journal.texts) < 400:
            assert time.monotonic() < deadline, f"{len(javas)} and {len(group.journal.texts)} of 400 came"
            await asyncio.sleep(0.1)
    assert javas
    assert group.journal.texts
    assert sorted([*javas, *group.journal.texts], key=int) == [str(n) for n in range(400)]


async def test_the_queues_of_a_java_member_that_dies_are_taken_over(
    apache: Apache, cluster: Cluster, topic: str
) -> None:
    group = fresh_group()
    ours = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first")
    ours.subscribe(topic, "*", Journal().handler())

    def held() -> set[MessageQueue]:
        return {queue for queue in ours.queues if queue.topic == topic}

    with apache.driver() as mortal:
        await asyncio.to_thread(lambda: mortal.push_consumer(group, namesrv=cluster.namesrv, topic=topic))
        async with ours:
            await until(lambda: len(held()) == 4)
            await asyncio.sleep(0.5)
            assert len(held()) == 4
            await asyncio.to_thread(mortal.kill)
            await until(lambda: held() == queues_of(topic), seconds=REBALANCE_S + 5)


async def test_the_queues_of_a_python_member_that_dies_are_taken_over(
    java: Driver, cluster: Cluster, topic: str
) -> None:
    group = fresh_group()
    theirs = await asyncio.to_thread(lambda: java.push_consumer(group, namesrv=cluster.namesrv, topic=topic))

    async def hold(wanted: int) -> None:
        deadline = time.monotonic() + REBALANCE_S + 5
        while sum(queue.topic == topic for queue in await asyncio.to_thread(theirs.assignment)) != wanted:
            assert time.monotonic() < deadline, f"Java's member does not hold {wanted} queues"
            await asyncio.sleep(0.05)

    try:
        await hold(8)
        async with running_member(namesrv=cluster.namesrv, group=group, topic=topic) as member:
            await hold(4)
            await asyncio.to_thread(member.kill)
            await hold(8)
    finally:
        await asyncio.to_thread(theirs.stop)
