"""Sending with our producer; Apache's client reads what was stored."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.selectors import select_by_hash, select_by_machine_room, select_random
from skyrocketmq.client.send_result import SendStatus
from skyrocketmq.errors import IllegalArgument, MessageIllegal
from skyrocketmq.model import CompressionType, Message, MessageQueue
from tests.interop.client.support import (
    COMPRESSED,
    QUEUES_A_BROKER,
    as_queue,
    client_test,
    fresh_group,
    fresh_name,
    java_reads,
    queues_of,
)
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, message

pytestmark = client_test


@pytest.mark.parametrize("binary_headers", [False, True], ids=["json headers", "binary headers"])
async def test_messages_are_stored_on_every_broker_with_all_they_carry(
    java: Driver, cluster: Cluster, topic: str, binary_headers: bool
) -> None:
    messages = [
        Message(topic, f"body {n}".encode(), tags="Tä", keys=[f"k{n}", "all"], properties={"höhe": f"{n} m"}, flag=n)
        for n in range(24)
    ]
    async with Producer("sender", namesrv=cluster.namesrv, binary_headers=binary_headers) as producer:
        results = await asyncio.gather(*(producer.send(one) for one in messages))
    found = await java_reads(java, cluster, results)

    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert {result.queue for result in results} == queues_of(topic)
    assert [one.text for one in found] == [f"body {n}" for n in range(24)]
    assert [(one.tags, one.keys, one.properties["höhe"], one.flag) for one in found] == [
        ("Tä", f"k{n} all", f"{n} m", n) for n in range(24)
    ]
    assert [one.msg_id for one in found] == [result.msg_id for result in results]
    assert [one.offset_msg_id for one in found] == [result.offset_msg_id for result in results]
    assert all(abs(one.born_ms - time.time() * 1000) < 60_000 for one in found)


async def test_a_thousand_sends_at_once_are_all_stored_once(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    results = await asyncio.gather(*(producer.send(Message(topic, str(n).encode())) for n in range(1_000)))

    places = {(result.queue, result.queue_offset) for result in results}
    assert len(places) == 1_000
    assert {result.queue for result in results} == queues_of(topic)
    assert len({result.msg_id for result in results}) == 1_000
    some = random.Random(1).sample(range(1_000), 20)
    found = await java_reads(java, cluster, [results[n] for n in some])
    assert [one.text for one in found] == [str(n) for n in some]


async def test_oneway_messages_arrive(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    for n in range(10):
        await producer.send_oneway(Message(topic, str(n).encode()))

    def receive() -> list[str]:
        with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
            return sorted(one.text for one in consumer.received(at_least=10))

    assert await asyncio.to_thread(receive) == sorted(str(n) for n in range(10))


async def test_a_batch_lies_together_in_one_queue(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    messages = [Message(topic, str(n).encode(), tags="T", keys=f"k{n}", properties={"n": str(n)}) for n in range(10)]
    result = await producer.send_batch(messages)

    def read() -> list[tuple[str, str | None, str, int]]:
        with java.pull_consumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
            [queue] = [each for each in consumer.queues(topic) if as_queue(each) == result.queue]
            pulled = consumer.pull(queue, offset=result.queue_offset)
        assert result.msg_id == ",".join(one.msg_id for one in pulled.messages)
        assert result.offset_msg_id == ",".join(str(one.offset_msg_id) for one in pulled.messages)
        return [(one.text, one.keys, one.properties["n"], one.queue_offset) for one in pulled.messages]

    assert result.status is SendStatus.SEND_OK
    assert await asyncio.to_thread(read) == [(str(n), f"k{n}", str(n), n) for n in range(10)]


async def test_sends_of_one_turn_travel_together_and_each_has_its_own_place(
    java: Driver, cluster: Cluster, topic: str
) -> None:
    async with Producer("batching", namesrv=cluster.namesrv, auto_batch=True) as producer:
        results = await asyncio.gather(*(producer.send(Message(topic, str(n).encode())) for n in range(20)))
    found = await java_reads(java, cluster, results)

    assert len({result.queue for result in results}) == 1
    assert [one.text for one in found] == [str(n) for n in range(20)]
    assert [one.msg_id for one in found] == [result.msg_id for result in results]
    assert [one.offset_msg_id for one in found] == [result.offset_msg_id for result in results]


@pytest.mark.parametrize("kind", CompressionType)
async def test_a_large_message_travels_compressed(
    java: Driver, cluster: Cluster, topic: str, kind: CompressionType
) -> None:
    body = (b"rocket " * 600_000)[: 3 * 1024 * 1024]
    async with Producer("compressing", namesrv=cluster.namesrv, compression=kind) as producer:
        result = await producer.send(Message(topic, body))
    [found] = await java_reads(java, cluster, [result])

    assert found.body == body
    assert found.sys_flag & COMPRESSED
    assert found.store_size < len(body) // 10


async def test_too_large_a_message_is_refused_and_others_are_not(java: Driver, cluster: Cluster, topic: str) -> None:
    noise = random.Random(1).randbytes(5 * 1024 * 1024)
    async with Producer("large", namesrv=cluster.namesrv) as producer:
        with pytest.raises(IllegalArgument, match="bytes"):
            await producer.send(Message(topic, noise))
    async with Producer("larger", namesrv=cluster.namesrv, message_bytes_max=8 * 1024 * 1024) as producer:
        with pytest.raises(MessageIllegal):
            await producer.send(Message(topic, noise))
        result = await producer.send(Message(topic, b"small"))
    assert [one.text for one in await java_reads(java, cluster, [result])] == ["small"]


@pytest.mark.slow
async def test_a_delayed_message_comes_later(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    await producer.send(Message(topic, b"later", delay_level=2))

    def receive() -> int:
        with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
            [received] = consumer.received(at_least=1)
        return received.store_ms - received.born_ms

    assert 4_500 < await asyncio.to_thread(receive) < 15_000


async def test_a_topic_is_created_by_its_first_message(java: Driver, cluster: Cluster, producer: Producer) -> None:
    topic = fresh_name("New")
    results = await asyncio.gather(*(producer.send(Message(topic, str(n).encode())) for n in range(16)))

    assert {result.queue.broker_name for result in results} == set(cluster.brokers)
    assert {result.queue.queue_id for result in results} == {0, 1, 2, 3}
    assert [one.text for one in await java_reads(java, cluster, results)] == [str(n) for n in range(16)]


class TestSelectors:
    async def test_equal_arguments_go_to_the_queue_that_apaches_producer_takes(
        self, java: Driver, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        orders = [f"order-{n}" for n in range(20)] + ["", "größe", "\U0001f680"]

        def javas_choices() -> list[MessageQueue]:
            with java.producer("java-sender", namesrv=cluster.namesrv) as sender:
                return [as_queue(sender.send(message(topic, "x"), shard_key=order)[0].queue) for order in orders]

        for _ in range(2):
            results = [
                await producer.send(Message(topic, b"x"), selector=select_by_hash, arg=order) for order in orders
            ]
            assert [result.queue for result in results] == await asyncio.to_thread(javas_choices)

    async def test_random_choice_reaches_every_queue(self, producer: Producer, topic: str) -> None:
        results = await asyncio.gather(
            *(producer.send(Message(topic, b"x"), selector=select_random) for _ in range(200))
        )
        assert {result.queue for result in results} == queues_of(topic)

    async def test_without_a_machine_room_all_queues_take_turns(self, producer: Producer, topic: str) -> None:
        select = select_by_machine_room(["nowhere"])
        results = [await producer.send(Message(topic, b"x"), selector=select) for _ in range(2 * QUEUES_A_BROKER)]
        assert {result.queue for result in results} == queues_of(topic)

    async def test_a_selector_of_ones_own_sees_the_message_and_its_argument(
        self, producer: Producer, topic: str
    ) -> None:
        def select(queues: Sequence[MessageQueue], chosen: Message, arg: object) -> MessageQueue:
            assert isinstance(arg, int)
            assert chosen.body == b"x"
            return queues[arg]

        queues = sorted(await producer.queues(topic))
        results = [await producer.send(Message(topic, b"x"), selector=select, arg=n) for n in range(len(queues))]
        assert sorted(result.queue for result in results) == queues

    async def test_a_queue_can_be_named(self, producer: Producer, topic: str) -> None:
        queue = MessageQueue(topic, "broker-b", 2)
        results = [await producer.send(Message(topic, b"x"), queue=queue) for _ in range(3)]
        assert [(result.queue, result.queue_offset) for result in results] == [(queue, 0), (queue, 1), (queue, 2)]


@pytest.mark.slow
async def test_while_a_broker_is_down_messages_go_to_the_other(java: Driver, cluster: Cluster, topic: str) -> None:
    """Every message is acknowledged, though half of the turns are the dead broker's."""
    async with Producer("survivor", namesrv=cluster.namesrv, send_timeout_s=10) as producer:
        first = [await producer.send(Message(topic, str(n).encode())) for n in range(8)]
        await asyncio.to_thread(cluster.last_broker.kill)
        try:
            during = [await producer.send(Message(topic, str(n).encode())) for n in range(8, 24)]
        finally:
            await asyncio.to_thread(cluster.last_broker.start)

        assert {result.queue.broker_name for result in first} == {"broker-a", "broker-b"}
        assert {result.queue.broker_name for result in during} == {"broker-a"}
        after: list[str] = []

        async def sees_it_again() -> None:
            while "broker-b" not in after:
                after.append((await producer.send(Message(topic, b"back"))).queue.broker_name)
                await asyncio.sleep(0.1)

        await asyncio.wait_for(sees_it_again(), 40)
    found = await java_reads(java, cluster, [*first, *during])
    assert [one.text for one in found] == [str(n) for n in range(24)]
