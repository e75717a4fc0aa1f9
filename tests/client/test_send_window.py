"""`submit` and `flush`: so many sends at a time, one place to wait for all of them, and no error is lost."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from skyrocketmq import blocking
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.send_window import SendWindow
from skyrocketmq.errors import ClientError, IllegalArgument, MQError
from skyrocketmq.model import Message
from skyrocketmq.testing import FaultyLink, ManualClock
from tests.client.cluster import Cluster
from tests.waiting import moving


async def test_all_that_was_submitted_is_stored_after_a_flush(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        tasks = [await producer.submit(Message("T", b"x")) for _ in range(100)]
        await producer.flush()
        assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 100
        assert sorted(task.result().queue_offset for task in tasks) == list(range(100))
        await producer.flush()


async def test_a_full_window_makes_the_next_one_wait(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    link = FaultyLink()
    async with Producer("senders", namesrv=cluster.namesrv, link=link, in_flight_max=3, send_timeout_s=30) as producer:
        await producer.send(Message("T", b"first"))
        link.stall()
        for _ in range(3):
            await producer.submit(Message("T", b"x"))
        fourth = asyncio.create_task(producer.submit(Message("T", b"fourth")))
        await asyncio.sleep(0.05)
        assert not fourth.done()
        link.release()
        await fourth
        await producer.flush()
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 5


async def test_a_flush_raises_what_has_failed_once(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    async with Producer("senders", namesrv=cluster.namesrv, message_bytes_max=10) as producer:
        await producer.submit(Message("T", b"x"))
        await producer.submit(Message("T", b"x" * 11))
        await producer.submit(Message("T", b"x" * 12))
        with pytest.raises(ExceptionGroup, match="2 of 3 messages were not sent") as caught:
            await producer.flush()
        assert {type(error) for error in caught.value.exceptions} == {IllegalArgument}
        await producer.flush()


async def test_a_window_of_nothing_is_refused_and_so_is_a_producer_that_is_not_started() -> None:
    with pytest.raises(IllegalArgument, match="in_flight_max = 0"):
        Producer("senders", namesrv="127.0.0.1:1", in_flight_max=0)
    with pytest.raises(IllegalArgument, match="in_flight_max = 0"):
        blocking.Producer("senders", namesrv="127.0.0.1:1", in_flight_max=0)
    with pytest.raises(ClientError, match="not started"):
        await Producer("senders", namesrv="127.0.0.1:1").submit(Message("T", b"x"))


async def test_closing_waits_for_what_is_under_way(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.create_topic("T", queues=1)
    link = FaultyLink()
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        tasks = [await producer.submit(Message("T", b"x")) for _ in range(10)]
    assert all(task.done() for task in tasks)
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 10
    clock = ManualClock()
    producer = Producer("senders", namesrv=cluster.namesrv, link=link, clock=clock, send_timeout_s=0.2)
    await producer.start()
    await producer.send(Message("T", b"x"))
    link.stall()
    task = await producer.submit(Message("T", b"x"))
    await moving(clock, producer.close())
    with pytest.raises(MQError):
        task.result()
    assert "messages not sent" in caplog.messages

    def work() -> None:
        with blocking.Producer("senders", namesrv=cluster.namesrv) as sending:
            futures = [sending.submit(Message("T", b"x")) for _ in range(10)]
        assert all(future.result().is_ok for future in futures)

    await asyncio.to_thread(work)


async def test_threads_have_the_same_window(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    under_way: list[int] = []

    def work() -> None:
        with blocking.Producer("senders", namesrv=cluster.namesrv, in_flight_max=2, message_bytes_max=10) as producer:
            futures = []
            for _ in range(20):
                futures.append(producer.submit(Message("T", b"x")))
                under_way.append(sum(not future.done() for future in futures))
            producer.submit(Message("T", b"x" * 11))
            with pytest.raises(ExceptionGroup, match="1 of 21 messages were not sent"):
                producer.flush()
            producer.flush()

    await asyncio.to_thread(work)
    assert max(under_way) <= 2
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 20


async def test_who_waits_for_room_when_the_producer_closes_hears_of_it(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    link = FaultyLink()
    producer = Producer("senders", namesrv=cluster.namesrv, link=link, in_flight_max=1, send_timeout_s=30)
    await producer.start()
    await producer.send(Message("T", b"first"))
    link.stall()
    begun = await producer.submit(Message("T", b"begun"))
    waiting = [asyncio.create_task(producer.submit(Message("T", b"waiting"))) for _ in range(3)]
    await asyncio.sleep(0.05)
    closing = asyncio.create_task(producer.close())
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, ClientError) and "being closed" in str(result) for result in results)
    link.release()
    await closing
    assert begun.result().is_ok
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 2
    async with producer:
        await producer.submit(Message("T", b"again"))
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 3


async def test_a_place_that_becomes_free_wakes_one_and_a_cancelled_one_passes_it_on() -> None:
    window = SendWindow(1)
    gates = [asyncio.Event() for _ in range(4)]
    begun: list[int] = []

    async def send(number: int) -> SendResult:
        begun.append(number)
        await gates[number].wait()
        raise IllegalArgument(f"number {number}")

    await window.begin(lambda: send(0))
    waiting = [asyncio.create_task(window.begin(lambda n=n: send(n))) for n in (1, 2, 3)]  # type: ignore[misc]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gates[0].set()
    await asyncio.sleep(0.01)
    assert begun == [0, 2]
    gates[2].set()
    assert waiting[2].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.sleep(0.01)
    await window.begin(lambda: send(1))
    gates[1].set()
    with pytest.raises(ExceptionGroup, match="3 of 3"):
        await window.flush()


async def test_many_who_wait_are_woken_once_each() -> None:
    window = SendWindow(1)
    turns = 0
    loop = asyncio.get_running_loop()
    create_future = loop.create_future

    def counted() -> asyncio.Future[object]:
        nonlocal turns
        turns += 1
        return create_future()

    async def send() -> SendResult:
        raise IllegalArgument("as the test wants it")

    loop.create_future = counted  # type: ignore[method-assign]
    try:
        await asyncio.gather(*(window.begin(send) for _ in range(200)))
    finally:
        del loop.create_future
    assert turns < 1000  # one who is woken in vain waits once more: that would be 20,000
    with pytest.raises(ExceptionGroup):
        await window.flush()


async def test_threads_hear_of_closing_and_what_failed_is_logged(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("T", queues=1)
    outcomes: list[object] = []

    def work() -> None:
        with blocking.Producer("senders", namesrv=cluster.namesrv, message_bytes_max=10) as producer:
            producer.submit(Message("T", b"x" * 11))
        producer = blocking.Producer("senders", namesrv=cluster.namesrv, in_flight_max=1)
        producer.start()

        def submit_on() -> None:
            try:
                while True:
                    outcomes.append(producer.submit(Message("T", b"x")).result)
            except ClientError as error:
                outcomes.append(error)

        submitting = threading.Thread(target=submit_on)
        submitting.start()
        while len(outcomes) < 10:
            time.sleep(0.001)
        producer.close()
        submitting.join(30)
        assert not submitting.is_alive()
        producer.flush()

    await asyncio.to_thread(work)
    assert caplog.messages.count("messages not sent") == 1
    assert isinstance(outcomes[-1], ClientError)
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == len(outcomes) - 1
