"""The blocking clients. The cluster runs on the test's loop, so their calls are made in threads."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest

from skyrocketmq import blocking
from skyrocketmq.client.selectors import select_by_hash
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.errors import ClientError
from skyrocketmq.model import Message, MessageQueue, MessageView
from tests.client.cluster import Cluster, until
from tests.client.test_push_consumer import numbered, send_all

T = TypeVar("T")
QUEUE = MessageQueue("T", "broker-a", 0)


async def in_thread(function: Callable[[], T]) -> T:
    return await asyncio.to_thread(function)


async def test_a_producer_sends_in_every_way(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)

    def work() -> list[int]:
        with blocking.Producer("senders", namesrv=cluster.namesrv) as producer:
            assert len(producer.queues("T")) == 1
            offsets = [
                producer.send(Message("T", b"0")).queue_offset,
                producer.send(Message("T", b"1"), selector=select_by_hash, arg="x").queue_offset,
                producer.send_batch([Message("T", b"2"), Message("T", b"3")]).queue_offset,
                *(future.result().queue_offset for future in [producer.submit(Message("T", b"4")) for _ in range(20)]),
            ]
            producer.send_oneway(Message("T", b"5"))
            return [int(offset) for offset in offsets]

    assert sorted(await in_thread(work)) == [0, 1, 2, *range(4, 24)]
    await until(lambda: cluster.brokers["broker-a"].store.max_offset("T", 0) == 25)


async def test_many_threads_share_a_producer(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=4)

    def work() -> int:
        with blocking.Producer("senders", namesrv=cluster.namesrv) as producer:
            ids: list[str] = []

            def send() -> None:
                ids.extend(producer.send(Message("T", b"x")).msg_id for _ in range(10))

            threads = [threading.Thread(target=send) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return len(set(ids))

    assert await in_thread(work) == 80


async def test_a_push_consumer_runs_until_it_is_closed(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=2)
    seen: list[bytes] = []
    consumer = blocking.PushConsumer("readers", namesrv=cluster.namesrv)

    @consumer.subscribe("T")
    def read(message: MessageView) -> None:
        seen.append(message.body)

    await in_thread(consumer.start)
    running = asyncio.create_task(in_thread(consumer.run))
    await send_all(cluster, numbered(20))
    await until(lambda: len(seen) == 20)
    assert len([queue for queue in await in_thread(lambda: consumer.queues) if queue.topic == "T"]) == 2
    await in_thread(consumer.close)
    await running
    await in_thread(consumer.close)
    assert Counter(seen) == Counter(numbered(20))


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_handler_may_close_its_own_consumer(cluster: Cluster, kind: str) -> None:
    cluster.create_topic("T", queues=1)
    consumer = blocking.PushConsumer("readers", namesrv=cluster.namesrv)

    def close(message: MessageView) -> None:
        consumer.close()

    async def close_async(message: MessageView) -> None:
        consumer.close()

    consumer.subscribe("T", "*", close if kind == "plain" else close_async)
    await send_all(cluster, [b"x"])

    def work() -> float:
        consumer.start()
        started = time.monotonic()
        consumer.run()
        return time.monotonic() - started

    assert await in_thread(work) < 10
    assert cluster.stored_offset("readers", "T", 0) == 1
    with pytest.raises(ClientError, match="not started"):
        consumer.stop()


async def test_a_handler_may_use_a_blocking_producer(cluster: Cluster) -> None:
    for topic in ("T", "U"):
        cluster.create_topic(topic, queues=1)

    def forward_all() -> None:
        done = threading.Event()
        with blocking.Producer("senders", namesrv=cluster.namesrv) as producer:
            forwarder = blocking.PushConsumer("forwarders", namesrv=cluster.namesrv)

            @forwarder.subscribe("T")
            def forward(message: MessageView) -> None:
                producer.send(Message("U", message.body))
                done.set()

            with forwarder:
                producer.send(Message("T", b"x"))
                assert done.wait(10)

    await in_thread(forward_all)
    assert cluster.brokers["broker-a"].store.max_offset("U", 0) == 1


async def test_a_blocking_call_from_an_async_handler_is_refused_rather_than_hanging(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    errors: list[Exception] = []

    def work() -> None:
        done = threading.Event()
        with blocking.Producer("senders", namesrv=cluster.namesrv) as producer:
            consumer = blocking.PushConsumer("readers", namesrv=cluster.namesrv)

            @consumer.subscribe("T")
            async def read(message: MessageView) -> None:
                try:
                    producer.send(Message("T", b"y"))
                except ClientError as error:
                    errors.append(error)
                done.set()

            with consumer:
                producer.send(Message("T", b"x"))
                assert done.wait(10)

    await in_thread(work)
    assert "would wait for itself" in str(errors[0])


async def test_a_pull_consumer_reads_and_keeps_offsets(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    await send_all(cluster, numbered(5))

    def work() -> None:
        with blocking.PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            assert consumer.queues("T") == [QUEUE]
            assert len(consumer.pull(QUEUE, 0).messages) == 5
            consumer.commit(QUEUE, 5)
            assert (consumer.committed(QUEUE), consumer.min_offset(QUEUE), consumer.max_offset(QUEUE)) == (5, 0, 5)

    await in_thread(work)


async def test_a_lite_pull_consumer_polls_seeks_and_loops(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    for body in numbered(5):
        await send_all(cluster, [body])

    def work() -> list[bytes]:
        with blocking.LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.assign([QUEUE])
            assert [message.body for message in consumer.poll()] == numbered(5)
            consumer.seek(QUEUE, 2)
            consumer.pause([QUEUE])
            assert consumer.poll(timeout_s=0.05) == []
            consumer.resume([QUEUE])
            seen = []
            for message in consumer:
                seen.append(message.body)
                if len(seen) == 3:
                    break
            consumer.commit()
            assert consumer.committed(QUEUE) == 5
            return seen

    assert await in_thread(work) == [b"2", b"3", b"4"]


async def test_a_client_that_is_not_started_says_so() -> None:
    producer = blocking.Producer("senders", namesrv="127.0.0.1:1")
    with pytest.raises(ClientError, match="inside 'with'"):
        producer.send(Message("T", b"x"))
    producer.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_client_works_in_a_process_made_by_fork(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)

    def work() -> tuple[int, str]:
        with blocking.Producer("senders", namesrv=cluster.namesrv) as producer:
            producer.send(Message("T", b"parent"))
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    producer.send(Message("T", b"child"))
                    os.write(writing, producer.client_id.encode())
                    producer.close()
                    status = 0
                finally:
                    os._exit(status)
            os.close(writing)
            _, status = os.waitpid(child, 0)
            child_id = os.read(reading, 1000).decode()
            os.close(reading)
            producer.send(Message("T", b"parent again"))
            assert child_id != producer.client_id
            return status, child_id

    status, child_id = await in_thread(work)
    assert status == 0
    assert "@" in child_id
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 3


async def test_all_threads_of_a_process_made_by_fork_may_begin_at_once(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)

    def send_from_threads(producer: blocking.Producer) -> int:
        ready = threading.Barrier(6)
        results: list[object] = []

        def send() -> None:
            ready.wait()
            try:
                results.append(producer.send(Message("T", b"x")))
            except Exception as error:
                results.append(error)

        threads = [threading.Thread(target=send, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        return sum(isinstance(result, SendResult) for result in results)

    def work() -> int:
        with blocking.Producer("senders", namesrv=cluster.namesrv) as producer:
            producer.send(Message("T", b"x"))
            child = os.fork()
            if child == 0:
                sent_count = 0
                try:
                    sent_count = send_from_threads(producer)
                finally:
                    os._exit(sent_count)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    for _ in range(3):
        assert await in_thread(work) == 6
