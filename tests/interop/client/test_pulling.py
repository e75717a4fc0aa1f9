"""Reading at one's own pace: our pull consumer and our lite pull consumer. Apache's client sends, or looks on."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.pulls import PullStatus
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message, MessageQueue, MessageView
from tests.interop.client.support import as_javas, client_test, fresh_group, queues_of, until
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver

pytestmark = client_test


async def send_numbers(producer: Producer, queue: MessageQueue, numbers: range, **fields: str) -> None:
    for n in numbers:
        await producer.send(Message(queue.topic, str(n).encode(), **fields), queue=queue)  # type: ignore[arg-type]


def texts(messages: list[MessageView]) -> list[str]:
    return [message.body.decode() for message in messages]


@pytest.fixture
def queue(topic: str) -> MessageQueue:
    return MessageQueue(topic, "broker-b", 1)


class TestPull:
    async def test_a_queue_is_read_from_any_offset(
        self, cluster: Cluster, producer: Producer, queue: MessageQueue
    ) -> None:
        await send_numbers(producer, queue, range(20))
        async with PullConsumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
            assert set(await consumer.queues(queue.topic)) == queues_of(queue.topic)
            result = await consumer.pull(queue, 5, count_max=8)
            assert (result.status, result.next_offset, result.max_offset) == (PullStatus.FOUND, 13, 20)
            assert texts(list(result.messages)) == [str(n) for n in range(5, 13)]
            assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 20)

    async def test_an_offset_beyond_the_queue_is_told(
        self, cluster: Cluster, producer: Producer, queue: MessageQueue
    ) -> None:
        await send_numbers(producer, queue, range(3))
        async with PullConsumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
            at_the_end = await consumer.pull(queue, 3)
            beyond = await consumer.pull(queue, 99)
        assert (at_the_end.status, list(at_the_end.messages)) == (PullStatus.NO_NEW_MESSAGE, [])
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 3)

    async def test_a_pull_that_waits_ends_when_a_message_comes(
        self, cluster: Cluster, producer: Producer, queue: MessageQueue
    ) -> None:
        await send_numbers(producer, queue, range(1))
        async with PullConsumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
            waiting = asyncio.create_task(consumer.pull(queue, 1, wait=True))
            await asyncio.sleep(1.0)
            assert not waiting.done()
            await send_numbers(producer, queue, range(1, 2))
            sent = time.monotonic()
            result = await waiting
        assert time.monotonic() - sent < 10, "a pull is held for 15 s or more"
        assert texts(list(result.messages)) == ["1"]

    async def test_tags_choose_messages(self, cluster: Cluster, producer: Producer, queue: MessageQueue) -> None:
        await send_numbers(producer, queue, range(5), tags="Aa")
        await send_numbers(producer, queue, range(5, 10), tags="BB")
        async with PullConsumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
            result = await consumer.pull(queue, 0, expression="BB")
        assert texts(list(result.messages)) == [str(n) for n in range(5, 10)]
        assert result.next_offset == 10

    async def test_committed_offsets_are_the_groups_in_both_languages(
        self, java: Driver, cluster: Cluster, producer: Producer, queue: MessageQueue
    ) -> None:
        group = fresh_group()
        await send_numbers(producer, queue, range(10))

        def javas_offset(new: int) -> int:
            with java.pull_consumer(group, namesrv=cluster.namesrv) as consumer:
                known = consumer.fetch_offset(as_javas(queue))
                consumer.update_offset(as_javas(queue), new)
                return known

        async with PullConsumer(group, namesrv=cluster.namesrv) as consumer:
            await consumer.commit(queue, 4)
            assert await consumer.committed(queue) == 4
            assert await asyncio.to_thread(javas_offset, 7) == 4
            assert await consumer.committed(queue) == 7

    async def test_a_moment_leads_to_an_offset(self, cluster: Cluster, producer: Producer, queue: MessageQueue) -> None:
        await send_numbers(producer, queue, range(5))
        await asyncio.sleep(0.5)
        moment = datetime.now(tz=UTC)
        await asyncio.sleep(0.5)
        await send_numbers(producer, queue, range(5, 10))
        async with PullConsumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
            offset = await consumer.offset_at(queue, moment)
        assert offset in (4, 5)  # the message nearest to it, on either side

    async def test_members_are_assigned_their_share(self, cluster: Cluster, topic: str) -> None:
        group = fresh_group()
        async with (
            PullConsumer(group, namesrv=cluster.namesrv, topics=[topic]) as first,
            PullConsumer(group, namesrv=cluster.namesrv, topics=[topic]) as second,
        ):
            await until(lambda: len(first.assigned(topic)) == len(second.assigned(topic)) == 4)
            assert {*first.assigned(topic), *second.assigned(topic)} == queues_of(topic)


class TestLitePull:
    async def test_members_share_a_topic_and_poll_all_of_it(
        self, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        group = fresh_group()
        got: dict[str, list[str]] = {"first": [], "second": []}

        async def read(consumer: LitePullConsumer, name: str) -> None:
            async for message in consumer:
                got[name].append(message.body.decode())

        async with (
            LitePullConsumer(group, namesrv=cluster.namesrv, consume_from="first") as first,
            LitePullConsumer(group, namesrv=cluster.namesrv, consume_from="first") as second,
        ):
            first.subscribe(topic)
            second.subscribe(topic)
            await until(lambda: len(first.assigned) == len(second.assigned) == 4)
            reading = [asyncio.create_task(read(first, "first")), asyncio.create_task(read(second, "second"))]
            await asyncio.gather(*(producer.send(Message(topic, str(n).encode())) for n in range(80)))
            await until(lambda: len(got["first"]) + len(got["second"]) >= 80)
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

        assert got["first"]
        assert got["second"]
        assert sorted(got["first"] + got["second"], key=int) == [str(n) for n in range(80)]

    async def test_a_group_goes_on_after_what_it_committed(
        self, java: Driver, cluster: Cluster, producer: Producer, queue: MessageQueue
    ) -> None:
        group = fresh_group()
        await send_numbers(producer, queue, range(30))

        async def read(count: int) -> list[str]:
            consumer = LitePullConsumer(
                group, namesrv=cluster.namesrv, consume_from="first", auto_commit=False, pull_batch_size=5
            )
            consumer.subscribe(queue.topic)
            found: list[str] = []
            async with consumer:
                while len(found) < count:
                    found += texts(await consumer.poll())
                await consumer.commit()
                assert await consumer.committed(queue) == int(found[-1]) + 1
            return found

        first = await read(10)
        second = await read(10)
        assert first + second == [str(n) for n in range(len(first) + len(second))]

        def javas_offset() -> int:
            with java.pull_consumer(group, namesrv=cluster.namesrv) as consumer:
                return consumer.fetch_offset(as_javas(queue))

        assert await asyncio.to_thread(javas_offset) == len(first) + len(second)

    async def test_assigned_queues_are_read_wherever_one_seeks(
        self, cluster: Cluster, producer: Producer, queue: MessageQueue
    ) -> None:
        await send_numbers(producer, queue, range(20))

        async def poll_until(count: int) -> list[str]:
            found: list[str] = []
            deadline = time.monotonic() + 20
            while len(found) < count:
                assert time.monotonic() < deadline, found
                found += texts(await consumer.poll(1))
            return found

        async with LitePullConsumer(fresh_group(), namesrv=cluster.namesrv, auto_commit=False) as consumer:
            consumer.assign([queue])
            await until(lambda: consumer.assigned == [queue])
            await consumer.seek_to_begin(queue)
            assert await poll_until(20) == [str(n) for n in range(20)]
            await consumer.seek(queue, 12)
            assert await poll_until(8) == [str(n) for n in range(12, 20)]
            await consumer.seek_to_end(queue)
            await send_numbers(producer, queue, range(20, 22))
            assert await poll_until(2) == ["20", "21"]
            with pytest.raises(IllegalArgument, match="99"):
                await consumer.seek(queue, 99)

    async def test_a_paused_queue_gives_nothing_until_it_is_resumed(
        self, cluster: Cluster, producer: Producer, queue: MessageQueue
    ) -> None:
        async with LitePullConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first") as consumer:
            consumer.assign([queue])
            await until(lambda: consumer.assigned == [queue])
            consumer.pause([queue])
            await asyncio.sleep(0.5)
            await send_numbers(producer, queue, range(5))
            assert texts(await consumer.poll(2)) == []
            consumer.resume([queue])
            found: list[str] = []
            while len(found) < 5:
                found += texts(await consumer.poll())
            assert found == [str(n) for n in range(5)]

    async def test_a_java_and_a_python_member_share_a_topic(
        self, java: Driver, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        group = fresh_group()
        theirs = await asyncio.to_thread(
            lambda: java.lite_consumer(group, namesrv=cluster.namesrv, topic=topic, from_="first")
        )
        try:
            async with LitePullConsumer(group, namesrv=cluster.namesrv, consume_from="first") as ours:
                ours.subscribe(topic)

                async def is_divided() -> bool:
                    javas = {
                        MessageQueue(one.topic, one.broker, one.queue_id)
                        for one in await asyncio.to_thread(theirs.assignment)
                    }
                    return (
                        len(javas) == 4 and javas | set(ours.assigned) == queues_of(topic) and len(ours.assigned) == 4
                    )

                deadline = time.monotonic() + 45
                while not await is_divided():
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.2)
        finally:
            await asyncio.to_thread(theirs.stop)
