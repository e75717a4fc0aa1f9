"""Sends that begin in one turn of the loop go by one request, and each has its own result."""

from __future__ import annotations

import asyncio

from skyrocketmq.client.auto_batch import BATCH_COUNT_MAX
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.send_result import SendResult, SendStatus
from skyrocketmq.errors import IllegalArgument, MessageIllegal, MQError, NetError, ProtocolError
from skyrocketmq.model import Message, MessageQueue, MessageView
from skyrocketmq.ports import SystemClock
from skyrocketmq.testing import FaultyLink, ManualClock
from skyrocketmq.wire.codes import RequestCode
from tests.client.cluster import Cluster, until
from tests.client.scripted import open_scripted, refuse
from tests.waiting import moving


def batching(cluster: Cluster, link: FaultyLink | None = None, clock: ManualClock | None = None) -> Producer:
    return Producer(
        "senders",
        namesrv=cluster.namesrv,
        auto_batch=True,
        link=link or FaultyLink(),
        clock=clock or SystemClock(),
    )


async def send_all(producer: Producer, messages: list[Message]) -> list[SendResult]:
    return await asyncio.gather(*(producer.send(message) for message in messages))


async def read(cluster: Cluster, topic: str, count: int) -> dict[tuple[MessageQueue, int], MessageView]:
    found: dict[tuple[MessageQueue, int], MessageView] = {}
    consumer = LitePullConsumer("readers", namesrv=cluster.namesrv, consume_from="first")
    consumer.subscribe(topic)
    async with consumer:
        while len(found) < count:
            found |= {(message.queue, message.queue_offset): message for message in await consumer.poll()}
    return found


async def test_each_send_of_a_turn_has_the_place_and_the_id_of_its_own_message(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=4)
    messages = [Message("T", b"%d" % n, tags="a", keys=f"k{n}", properties={"n": str(n)}, flag=n) for n in range(50)]
    async with batching(cluster) as producer:
        results = await send_all(producer, messages)
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert len({result.queue for result in results}) == 1
    assert [result.queue_offset for result in results] == list(range(50))
    found = await read(cluster, "T", 50)
    for message, result in zip(messages, results, strict=True):
        stored = found[result.queue, result.queue_offset]
        assert (stored.body, stored.tags, stored.keys) == (message.body, "a", message.keys)
        assert (stored.flag, stored.properties["n"]) == (message.flag, message.properties["n"])
        assert (stored.msg_id, stored.offset_msg_id) == (result.msg_id, result.offset_msg_id)


async def test_turns_that_follow_one_another_use_all_queues(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=4)
    async with batching(cluster) as producer:
        results = [await send_all(producer, [Message("T", b"x")] * 3) for _ in range(4)]
    assert {result[0].queue.queue_id for result in results} == {0, 1, 2, 3}


async def test_a_turn_of_many_messages_and_topics_is_sent_in_parts(cluster: Cluster) -> None:
    for topic in ("T", "U"):
        cluster.create_topic(topic, queues=1)
    count = 2 * BATCH_COUNT_MAX + 7
    async with batching(cluster) as producer:
        results = await send_all(
            producer, [Message("TU"[n % 2], b"x", wait_for_store=n % 3 > 0) for n in range(2 * count)]
        )
    for topic in ("T", "U"):
        places = [result.queue_offset for result in results if result.queue.topic == topic]
        assert sorted(places) == list(range(count))


async def test_large_bodies_make_a_batch_full_before_many_messages_do(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    async with batching(cluster) as producer:
        results = await send_all(producer, [Message("T", b"x" * 4000)] * 300)
    assert sorted(result.queue_offset for result in results) == list(range(300))


async def test_what_no_batch_can_carry_goes_alone(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=2)
    queue = MessageQueue("T", "broker-a", 1)
    async with batching(cluster) as producer:
        results = await asyncio.gather(
            producer.send(Message("T", b"plain")),
            producer.send(Message("T", b"x"), queue=queue),
            producer.send(Message("T", b"x" * 100_000)),
            producer.send(Message("T", b"x"), timeout_s=5),
            producer.send(Message("T", b"x", delay_level=1)),
        )
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert results[1].queue == queue


async def test_one_message_that_is_refused_spoils_nothing(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    async with batching(cluster) as producer:
        results = await asyncio.gather(
            producer.send(Message("T", b"first")),
            producer.send(Message("T", b"x", properties={"long": "x" * 40_000})),
            producer.send(Message("T", b"last")),
            return_exceptions=True,
        )
    assert isinstance(results[1], IllegalArgument)
    assert [result.queue_offset for result in results if isinstance(result, SendResult)] == [0, 1]


async def test_a_sender_that_is_cancelled_does_not_disturb_the_others(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    async with batching(cluster) as producer:
        await producer.send(Message("T", b"first"))
        senders = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(5)]
        await asyncio.sleep(0)
        senders[2].cancel()
        results = await asyncio.gather(*senders, return_exceptions=True)
    assert isinstance(results[2], asyncio.CancelledError)
    assert [result.queue_offset for result in results if isinstance(result, SendResult)] == [1, 2, 4, 5]


async def test_if_a_batch_fails_every_sender_hears_why(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    link = FaultyLink()
    async with batching(cluster, link) as producer:
        await producer.send(Message("T", b"first"))
        link.is_refusing = True
        link.cut()
        results = await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(result, MQError) and "not acknowledged" in str(result) for result in results)
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 1


async def test_closing_ends_the_sends_that_are_under_way(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    link = FaultyLink()
    clock = ManualClock()
    producer = batching(cluster, link, clock)
    await producer.start()
    await producer.send(Message("T", b"first"))
    link.stall()
    senders = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(5)]
    await clock.settle()
    await moving(clock, producer.close())
    results = await asyncio.gather(*senders, return_exceptions=True)
    assert all(isinstance(result, NetError) for result in results)
    await until(lambda: not link.connections)


async def test_without_the_option_every_message_has_its_turn(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=4)
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        results = await send_all(producer, [Message("T", b"x")] * 8)
    assert {result.queue.queue_id for result in results} == {0, 1, 2, 3}


async def test_properties_count_so_that_no_batch_is_larger_than_a_broker_takes(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    async with batching(cluster) as producer:
        results = await send_all(producer, [Message("T", b"x", properties={"trace": "é" * 10_000})] * 256)
    assert sorted(result.queue_offset for result in results) == list(range(256))


async def test_a_batch_that_is_refused_as_illegal_is_sent_one_by_one() -> None:
    async with open_scripted(brokers=["broker-a"]) as scripted:
        scripted.add_topic("T")
        broker = scripted.brokers["broker-a"]
        broker.on(RequestCode.SEND_BATCH_MESSAGE, refuse(13, "too large"))
        async with Producer("senders", namesrv=scripted.namesrv, auto_batch=True) as producer:
            results = await send_all(producer, [Message("T", b"%d" % n) for n in range(5)])
            assert [result.queue_offset for result in results] == [5] * 5
            assert sorted(frame.body for frame in broker.frames(RequestCode.SEND_MESSAGE_V2)) == [
                b"%d" % n for n in range(5)
            ]
            broker.on(RequestCode.SEND_MESSAGE_V2, refuse(13, "too large"))
            errors = await asyncio.gather(
                *(producer.send(Message("T", b"x")) for _ in range(3)), return_exceptions=True
            )
    assert [type(error) for error in errors] == [MessageIllegal] * 3


async def test_each_sender_of_a_failed_batch_has_an_error_of_its_own() -> None:
    async with open_scripted(brokers=["broker-a"]) as scripted:
        scripted.add_topic("T")
        scripted.brokers["broker-a"].on(RequestCode.SEND_BATCH_MESSAGE, refuse(16, "not for you"))
        async with Producer("senders", namesrv=scripted.namesrv, auto_batch=True) as producer:
            errors = await asyncio.gather(
                *(producer.send(Message("T", b"x")) for _ in range(3)), return_exceptions=True
            )
    assert len({id(error) for error in errors}) == 3
    for error in errors:
        assert isinstance(error, MQError)
        assert "not for you" in str(error)
        assert vars(error)["code"] == 16
        assert error.__notes__


async def test_an_answer_with_too_few_ids_is_not_called_a_closed_client() -> None:
    async with (
        open_scripted(brokers=["broker-a"]) as scripted,  # it answers with one id, however many are sent
        Producer("senders", namesrv=scripted.namesrv, auto_batch=True) as producer,
    ):
        scripted.add_topic("T")
        errors = await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(3)), return_exceptions=True)
    for error in errors:
        assert isinstance(error, ProtocolError)
        assert "is stored" in str(error)
