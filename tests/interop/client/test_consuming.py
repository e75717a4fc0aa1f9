"""Our push consumer: sharing, broadcasting, tags, retries and offsets. Apache's client sends."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import Message, MessageView
from skyrocketmq.model.names import dlq_topic
from tests.interop.client.journal import Journal
from tests.interop.client.member import running_member
from tests.interop.client.support import (
    COMPRESSED,
    as_queue,
    client_test,
    fresh_group,
    queues_of,
    until,
)
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, JavaError, Sent, large_message, message

pytestmark = client_test


def consumer_of(
    cluster: Cluster, group: str, topic: str, journal: Journal, member: str = "m", **options: object
) -> PushConsumer:
    consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first", **options)  # type: ignore[arg-type]
    consumer.subscribe(topic, "*", journal.handler(member))
    return consumer


async def send_numbers(producer: Producer, topic: str, numbers: range) -> None:
    await asyncio.gather(*(producer.send(Message(topic, str(n).encode())) for n in numbers))


def texts(numbers: range) -> set[str]:
    return {str(n) for n in numbers}


async def test_a_received_message_has_all_that_was_sent(java: Driver, cluster: Cluster, topic: str) -> None:
    def send() -> list[Sent]:
        with java.producer("java-sender", namesrv=cluster.namesrv) as producer:
            return producer.send(
                message(topic, "body {i}", tags="Tä", keys="k{i} all", properties={"höhe": "8 m"}, flag=7, count=16)
            )

    sent = await asyncio.to_thread(send)
    journal = Journal()
    async with consumer_of(cluster, fresh_group(), topic, journal):
        await journal.holds(16)

    assert {entry.message.queue for entry in journal.entries} == queues_of(topic)
    received = {entry.message.msg_id: entry.message for entry in journal.entries}
    for n, result in enumerate(sent):
        found = received[result.msg_id or ""]
        assert (found.topic, found.body) == (topic, f"body {n}".encode())
        assert (found.tags, found.keys, found.flag) == ("Tä", (f"k{n}", "all"), 7)
        assert found.user_properties["höhe"] == "8 m"
        assert (found.queue, found.queue_offset) == (as_queue(result.queue), result.queue_offset)
        assert (found.offset_msg_id, found.reconsume_times) == (result.offset_msg_id, 0)
        assert abs(found.born_timestamp - time.time() * 1000) < 60_000
        assert abs(found.store_timestamp - found.born_timestamp) < 60_000


async def test_a_large_message_arrives_as_it_was(java: Driver, cluster: Cluster, topic: str) -> None:
    body_bytes = 3 * 1024 * 1024

    def send() -> None:
        with java.producer("java-sender", namesrv=cluster.namesrv) as producer:
            producer.send(large_message(topic, fill="rocket ", body_bytes=body_bytes))

    await asyncio.to_thread(send)
    journal = Journal()
    async with consumer_of(cluster, fresh_group(), topic, journal):
        await journal.holds(1)

    [entry] = journal.entries
    assert entry.message.body == (b"rocket " * body_bytes)[:body_bytes]
    assert entry.message.sys_flag & COMPRESSED


async def test_tags_are_told_apart_even_if_their_hashes_are_equal(
    cluster: Cluster, producer: Producer, topic: str
) -> None:
    """`Aa` and `BB` have the same hash in Java: the broker passes both on, the consumer drops one."""
    for n, tag in enumerate(["Aa", "BB", "C", None] * 4):
        await producer.send(Message(topic, str(n).encode(), tags=tag))
    journal = Journal()
    consumer = PushConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first")
    consumer.subscribe(topic, "Aa || C", journal.handler())
    async with consumer:
        await journal.holds(8)
        await asyncio.sleep(0.5)

    assert sorted(journal.texts, key=int) == [str(n) for n in range(16) if n % 4 in (0, 2)]


class TestSharing:
    async def test_members_share_the_queues_as_they_come_and_leave(
        self, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        group, journal = fresh_group(), Journal()

        def shared_by(*members: PushConsumer) -> bool:
            held = [queue for member in members for queue in member.queues if queue.topic == topic]
            sizes = {len([queue for queue in member.queues if queue.topic == topic]) for member in members}
            return sorted(held) == sorted(queues_of(topic)) and max(sizes) - min(sizes) <= 1

        first, second, third = (consumer_of(cluster, group, topic, journal, name) for name in "123")
        async with first:
            await until(lambda: shared_by(first), what="one has all")
            async with second:
                await until(lambda: shared_by(first, second), what="two share")
                await send_numbers(producer, topic, range(40))
                await journal.holds(40)
                assert len(journal.of("1")) == len(journal.of("2")) == 20
                async with third:
                    await until(lambda: shared_by(first, second, third), what="three share")
                    await send_numbers(producer, topic, range(40, 80))
                    await journal.holds(80)
                await until(lambda: shared_by(first, second), what="two share again")
            await until(lambda: shared_by(first), what="one has all again")
            await send_numbers(producer, topic, range(80, 120))
            await journal.holds(120)

        assert set(journal.texts) == texts(range(120))
        # Offsets are stored every few seconds: a queue that changes hands may bring again what came just before.
        assert {journal.counts[text] for text in texts(range(80, 120))} == {1}

    @pytest.mark.slow
    async def test_members_that_come_and_go_under_load_lose_nothing(
        self, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        group, journal = fresh_group(), Journal()

        async def send() -> None:
            for start in range(0, 1_000, 10):
                await send_numbers(producer, topic, range(start, start + 10))
                await asyncio.sleep(0.05)

        async def come_and_go() -> None:
            for visit in range(4):
                async with consumer_of(cluster, group, topic, journal, f"visitor {visit}"):
                    await asyncio.sleep(1.0)

        async with consumer_of(cluster, group, topic, journal, "host"):
            await asyncio.gather(send(), come_and_go())
            await journal.holds(1_000)

        assert set(journal.texts) == texts(range(1_000))
        repeated = sum(count - 1 for count in journal.counts.values())
        assert repeated < 200  # what was fetched and not committed when its queue changed hands

    async def test_the_queues_of_a_member_that_dies_are_taken_over(
        self, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        group, journal = fresh_group(), Journal()
        async with (
            consumer_of(cluster, group, topic, journal) as consumer,
            running_member(namesrv=cluster.namesrv, group=group, topic=topic) as member,
        ):
            await until(lambda: len([queue for queue in consumer.queues if queue.topic == topic]) == 4)
            await send_numbers(producer, topic, range(40))
            await until(lambda: len(journal.texts) + len(member.texts) >= 40)
            assert member.texts
            await asyncio.to_thread(member.kill)
            await until(lambda: {queue for queue in consumer.queues if queue.topic == topic} == queues_of(topic))
            await send_numbers(producer, topic, range(40, 80))
            await until(lambda: texts(range(40, 80)) <= set(journal.texts))

        assert texts(range(40)) <= {*journal.texts, *member.texts}

    async def test_a_group_goes_on_where_it_stopped(self, cluster: Cluster, producer: Producer, topic: str) -> None:
        group = fresh_group()
        for start in (0, 20, 40):
            journal = Journal()
            await send_numbers(producer, topic, range(start, start + 20))
            async with consumer_of(cluster, group, topic, journal):
                await journal.holds(20)
                await asyncio.sleep(0.3)
            assert sorted(journal.texts, key=int) == [str(n) for n in range(start, start + 20)]

    async def test_a_plain_function_may_block_and_the_stop_waits_for_it(
        self, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        group = fresh_group()
        finished: list[str] = []

        def block(received: list[MessageView]) -> None:
            time.sleep(0.5)
            finished.extend(one.body.decode() for one in received)

        await send_numbers(producer, topic, range(32))
        consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first")
        consumer.subscribe(topic, "*", block, batch=4)
        async with consumer:
            await asyncio.sleep(0.6)
        done = set(finished)
        journal = Journal()
        async with consumer_of(cluster, group, topic, journal):
            await until(lambda: done | set(journal.texts) == texts(range(32)))
        assert done
        assert done.isdisjoint(journal.texts)


class TestBroadcasting:
    async def test_every_member_gets_everything(
        self, cluster: Cluster, producer: Producer, topic: str, tmp_path: Path
    ) -> None:
        group, journal = fresh_group(), Journal()
        members = [
            consumer_of(
                cluster,
                group,
                topic,
                journal,
                name,
                broadcasting=True,
                instance_name=f"member-{name}",
                offsets_directory=tmp_path,
            )
            for name in "12"
        ]
        async with members[0], members[1]:
            await send_numbers(producer, topic, range(30))
            await until(lambda: len(journal.entries) >= 60)
            await asyncio.sleep(0.3)

        for name in "12":
            assert sorted(journal.of(name), key=int) == [str(n) for n in range(30)]

    @pytest.mark.slow
    async def test_java_and_python_go_on_from_each_others_file(
        self, java: Driver, cluster: Cluster, producer: Producer, topic: str, tmp_path: Path
    ) -> None:
        """A consumer of the same client id finds its offsets in the file that the other language has left."""
        group = fresh_group()
        home = java.home / ".rocketmq_offsets"

        def javas_turn(count: int) -> tuple[str, list[str]]:
            with java.push_consumer(
                group, namesrv=cluster.namesrv, topic=topic, from_="first", model="BROADCASTING", instance="reader"
            ) as consumer:
                received = consumer.received(at_least=count)
                time.sleep(1.0)  # a message counts as received before its listener is done with it
                return consumer.client_id, sorted((one.text for one in received), key=int)

        await send_numbers(producer, topic, range(20))
        client_id, received = await asyncio.to_thread(javas_turn, 20)
        assert received == [str(n) for n in range(20)]
        ip, _, instance = client_id.partition("@")
        assert instance == "reader"

        await send_numbers(producer, topic, range(20, 30))
        journal = Journal()
        ours = consumer_of(
            cluster,
            group,
            topic,
            journal,
            broadcasting=True,
            client_ip=ip,
            instance_name=instance,
            offsets_directory=home,
        )
        async with ours:
            assert ours.client_id == client_id
            await journal.holds(10)
            await asyncio.sleep(0.3)
        assert sorted(journal.texts, key=int) == [str(n) for n in range(20, 30)]

        await send_numbers(producer, topic, range(30, 35))
        _, received = await asyncio.to_thread(javas_turn, 5)
        assert received == [str(n) for n in range(30, 35)]


class TestRetries:
    @pytest.mark.slow
    async def test_a_message_whose_handler_raises_comes_again(
        self, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        await producer.send(Message(topic, b"first"))
        seen: list[tuple[str, str, int, float]] = []

        async def fail_once(received: MessageView) -> ConsumeResult | None:
            seen.append((received.topic, received.body.decode(), received.reconsume_times, time.monotonic()))
            if received.reconsume_times == 0:
                raise ValueError("not yet")
            if received.reconsume_times == 1:
                return ConsumeResult.retry(delay_level=1)
            return None

        consumer = PushConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first")
        consumer.subscribe(topic, "*", fail_once)
        async with consumer:
            await until(lambda: len(seen) >= 3, seconds=60)
            await asyncio.sleep(1.5)

        assert [entry[:3] for entry in seen] == [(topic, "first", times) for times in (0, 1, 2)]
        assert 9 < seen[1][3] - seen[0][3] < 20  # the third level of the broker's table: 10 s
        assert 0.9 < seen[2][3] - seen[1][3] < 6

    async def test_of_a_list_only_the_rest_comes_again(self, cluster: Cluster, producer: Producer, topic: str) -> None:
        results = await producer.send_batch([Message(topic, str(n).encode()) for n in range(6)])
        lists: list[list[tuple[str, int]]] = []

        # Apache's broker shows a batch to readers message by message: it may come in more than one list.
        async def take_two(received: list[MessageView]) -> ConsumeResult:
            lists.append([(one.body.decode(), one.reconsume_times) for one in received])
            if received[0].reconsume_times:
                return ConsumeResult.SUCCESS
            return ConsumeResult(delay_level=1, consumed_count=sum(one.body in (b"0", b"1") for one in received))

        def again() -> list[str]:
            return sorted(text for one in lists for text, times in one if times)

        consumer = PushConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first")
        consumer.subscribe(topic, "*", take_two, batch=6)
        async with consumer:
            await until(lambda: len(again()) >= 4, what="four messages that come again")
            await asyncio.sleep(1.0)
        assert results.is_ok
        assert again() == ["2", "3", "4", "5"], lists

    async def test_a_message_that_keeps_failing_ends_among_the_dead_letters(
        self, java: Driver, cluster: Cluster, producer: Producer, topic: str
    ) -> None:
        group = fresh_group()
        await producer.send(Message(topic, b"bad", keys="k"))
        times: list[int] = []

        async def refuse(received: MessageView) -> ConsumeResult:
            times.append(received.reconsume_times)
            return ConsumeResult.retry(delay_level=1)

        consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first", retry_count_max=2)
        consumer.subscribe(topic, "*", refuse)

        def dead_letters() -> list[str]:
            with java.producer("asking", namesrv=cluster.namesrv) as asking:
                try:
                    return [one.text for one in asking.query(dlq_topic(group), "k")]
                except JavaError:  # there is nothing yet
                    return []

        async with consumer:
            await until(lambda: len(times) >= 3)
            deadline = time.monotonic() + 30
            while not (found := await asyncio.to_thread(dead_letters)):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.5)
        assert times == [0, 1, 2]
        assert found == ["bad"]
