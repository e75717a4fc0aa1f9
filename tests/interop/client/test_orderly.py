"""Messages in order: each queue one message after the other, whoever reads it."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import Message, MessageQueue, MessageView
from tests.interop.client.journal import Journal
from tests.interop.client.member import running_member
from tests.interop.client.support import client_test, fresh_group, queues_of, until
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver
from tests.interop.driver import PushConsumer as JavaConsumer

pytestmark = client_test

LOCK_LIFE_S = 60  # how long a broker keeps the queues of a member that has died for it


def orderly_consumer(cluster: Cluster, group: str, topic: str, journal: Journal, member: str) -> PushConsumer:
    consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first", orderly=True)
    consumer.subscribe(topic, "*", journal.handler(member, takes_s=0.002))
    return consumer


async def send_in_order(producer: Producer, topic: str, numbers: range, *, pause_s: float = 0.0) -> None:
    """The same numbers into every queue, each as `number`."""
    queues = sorted(queues_of(topic))
    for n in numbers:
        await asyncio.gather(*(producer.send(Message(topic, str(n).encode()), queue=queue) for queue in queues))
        if pause_s:
            await asyncio.sleep(pause_s)


@pytest.mark.slow
async def test_order_holds_while_members_come_and_go(cluster: Cluster, producer: Producer, topic: str) -> None:
    group, journal = fresh_group(), Journal()

    async def come_and_go() -> None:
        for visit in range(4):
            async with orderly_consumer(cluster, group, topic, journal, f"visitor {visit}"):
                await asyncio.sleep(1.5)

    async with orderly_consumer(cluster, group, topic, journal, "host"):
        await asyncio.gather(send_in_order(producer, topic, range(200), pause_s=0.03), come_and_go())
        await until(lambda: handled_places(journal) >= everything(topic, 200), what="all messages")

    assert journal.collisions == []
    assert {entry.member for entry in journal.entries} > {"host"}, "no visitor ever had a queue"
    for queue in queues_of(topic):
        assert_in_order([(entry.member, int(entry.text)) for entry in journal.entries if entry.message.queue == queue])


async def test_a_failed_message_holds_up_those_behind_it(cluster: Cluster, producer: Producer, topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 1)
    for n in range(6):
        await producer.send(Message(topic, str(n).encode()), queue=queue)
    seen: list[tuple[str, int]] = []

    async def fail_twice(received: MessageView) -> ConsumeResult:
        seen.append((received.body.decode(), received.reconsume_times))
        if received.body == b"3" and received.reconsume_times < 2:
            return ConsumeResult.retry(pause_s=0.1)
        return ConsumeResult.SUCCESS

    consumer = PushConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first", orderly=True)
    consumer.subscribe(topic, "*", fail_twice)
    async with consumer:
        await until(lambda: len(seen) >= 8)

    assert seen == [("0", 0), ("1", 0), ("2", 0), ("3", 0), ("3", 1), ("3", 2), ("4", 0), ("5", 0)]


async def test_a_message_that_keeps_failing_makes_way_in_the_end(
    cluster: Cluster, producer: Producer, topic: str
) -> None:
    queue = MessageQueue(topic, "broker-b", 0)
    for text in (b"bad", b"good"):
        await producer.send(Message(topic, text), queue=queue)
    seen: list[str] = []

    async def refuse_one(received: MessageView) -> None:
        seen.append(received.body.decode())
        if received.body == b"bad":
            raise ValueError("never")

    consumer = PushConsumer(
        fresh_group(), namesrv=cluster.namesrv, consume_from="first", orderly=True, retry_count_max=2, pause_s=0.1
    )
    consumer.subscribe(topic, "*", refuse_one)
    async with consumer:
        await until(lambda: "good" in seen)
    assert seen == ["bad", "bad", "bad", "good"]


async def test_a_group_goes_on_in_order_where_it_stopped(cluster: Cluster, producer: Producer, topic: str) -> None:
    group, journal = fresh_group(), Journal()
    await send_in_order(producer, topic, range(50))
    for count in (40, 80, 200, 400):
        async with orderly_consumer(cluster, group, topic, journal, "m"):
            await until(partial(journal.has_entries, count))
    assert journal.by_queue() == {queue: [str(n) for n in range(50)] for queue in queues_of(topic)}


@pytest.mark.slow
@pytest.mark.reference  # on ours too: half a minute of waiting; system/test_delivery_faults.py has shorter locks
@pytest.mark.timeout(180, func_only=True)
async def test_the_queues_of_a_member_that_dies_go_on_in_order(
    cluster: Cluster, producer: Producer, topic: str
) -> None:
    """Its locks live on at the broker for a minute; then the others go on, and may see its last messages again."""
    group, journal = fresh_group(), Journal()
    async with (
        orderly_consumer(cluster, group, topic, journal, "survivor") as survivor,
        running_member(namesrv=cluster.namesrv, group=group, topic=topic, orderly=True) as member,
    ):
        await until(lambda: len([queue for queue in survivor.queues if queue.topic == topic]) == 4)
        await send_in_order(producer, topic, range(20))
        await until(lambda: len(journal.entries) + len(member.texts) >= 160)
        await asyncio.to_thread(member.kill)
        died = time.monotonic()
        await send_in_order(producer, topic, range(20, 40))
        await until(
            lambda: (
                all(texts and texts[-1] == "39" for texts in journal.by_queue().values())
                and len(journal.by_queue()) == 8
            ),
            seconds=2 * LOCK_LIFE_S,
        )
        took_s = time.monotonic() - died

    assert journal.collisions == []
    assert took_s < LOCK_LIFE_S + 30
    for texts in journal.by_queue().values():
        numbers = [int(text) for text in texts]
        assert numbers == sorted(numbers)
        assert set(range(20, 40)) <= set(numbers)


@pytest.mark.slow
async def test_order_holds_between_a_java_and_a_python_member(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    handled: list[tuple[float, str, MessageQueue, int]] = []  # when, by whom, in which queue, which number

    def python_member(name: str) -> PushConsumer:
        async def handle(received: MessageView) -> None:
            handled.append((time.time() * 1000, name, received.queue, int(received.body)))
            await asyncio.sleep(0.002)

        consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first", orderly=True)
        consumer.subscribe(topic, "*", handle)
        return consumer

    def take_from(consumer: JavaConsumer, name: str) -> None:
        for one in consumer.received():
            assert one.received_ms is not None
            queue = MessageQueue(one.topic, one.broker or "", one.queue_id)
            handled.append((one.received_ms, name, queue, int(one.text)))

    async def javas_visits() -> None:
        for visit in range(3):
            consumer = await asyncio.to_thread(
                lambda: java.push_consumer(
                    group, namesrv=cluster.namesrv, topic=topic, from_="first", orderly=True, behaviour={"delay_ms": 2}
                )
            )
            await asyncio.sleep(3.0)
            await asyncio.to_thread(consumer.invoke, "shutdown")  # it is asked what it received before it is forgotten
            await asyncio.to_thread(take_from, consumer, f"java {visit}")
            await asyncio.to_thread(consumer.stop)

    async with python_member("host"):
        await asyncio.gather(send_in_order(producer, topic, range(250), pause_s=0.04), javas_visits())
        async with python_member("guest"):
            await until(lambda: {(queue, n) for _, _, queue, n in handled} >= everything(topic, 250), seconds=60)

    assert any(name.startswith("java") for _, name, _, _ in handled), "the Java member never had a queue"
    for queue in queues_of(topic):
        assert_in_order([(name, n) for _, name, place, n in sorted(handled) if place == queue])


def everything(topic: str, upto: int) -> set[tuple[MessageQueue, int]]:
    return {(queue, n) for queue in queues_of(topic) for n in range(upto)}


def handled_places(journal: Journal) -> set[tuple[MessageQueue, int]]:
    return {(entry.message.queue, int(entry.text)) for entry in journal.entries}


def assert_in_order(handled: list[tuple[str, int]]) -> None:
    """Nothing is skipped; repeated is what a member was about to finish when the queue was given to another (who may
    have given it back at once), and nothing older by the same member."""
    highest, last_member, last_number = -1, "", -1
    for member, number in handled:
        assert number <= highest + 1, f"{member} got {number} after {highest}"
        if member == last_member:
            assert number in (last_number, last_number + 1), f"{member} got {number} after {last_number}"
        highest, last_member, last_number = max(highest, number), member, number
