"""`submit` and `flush`: so many sends at a time, one place to wait for all of them, and no error is lost."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq import blocking
from skyrocketmq.client.producer import Producer
from skyrocketmq.errors import ClientError, IllegalArgument, MQError
from skyrocketmq.model import Message
from skyrocketmq.testing import FaultyLink
from tests.client.cluster import Cluster


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
    async with Producer("senders", namesrv=cluster.namesrv, link=link, send_timeout_s=0.2) as producer:
        await producer.send(Message("T", b"x"))
        link.stall()
        task = await producer.submit(Message("T", b"x"))
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
