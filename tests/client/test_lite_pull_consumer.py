from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.errors import BrokerError, ClientError, IllegalArgument
from skyrocketmq.model import MessageQueue
from skyrocketmq.wire.codes import RequestCode
from tests.client.cluster import Cluster, until
from tests.client.scripted import open_scripted, refuse
from tests.client.test_push_consumer import numbered, send_all

QUEUE = MessageQueue("T", "broker-a", 0)


async def poll_bodies(consumer: LitePullConsumer, count: int) -> list[bytes]:
    """Bodies until there are so many, or none comes any more."""
    bodies: list[bytes] = []
    while len(bodies) < count and (messages := await consumer.poll(timeout_s=3)):
        bodies += [message.body for message in messages]
    return bodies


class TestSubscribing:
    async def test_messages_are_polled_in_batches_of_one_queue(self, two_brokers: Cluster) -> None:
        two_brokers.create_topic("T")
        await send_all(two_brokers, numbered(100))
        async with LitePullConsumer("readers", namesrv=two_brokers.namesrv) as consumer:
            consumer.subscribe("T")
            seen: list[bytes] = []
            while len(seen) < 100:
                messages = await consumer.poll()
                assert 0 < len(messages) <= 10
                assert len({message.queue for message in messages}) == 1
                seen += [message.body for message in messages]
            assert await consumer.poll(timeout_s=0.05) == []
        assert Counter(seen) == Counter(numbered(100))

    async def test_messages_come_one_by_one_in_a_loop(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        await send_all(cluster, [b"0", b"1"], tags="A")
        await send_all(cluster, [b"no"], tags="B")
        seen: list[bytes] = []
        consumer = LitePullConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "A")
        async with consumer:
            async for message in consumer:
                seen.append(message.body)
                if len(seen) == 2:
                    await send_all(cluster, [b"2"], tags="A")
                if len(seen) == 3:
                    break
        assert sorted(seen) == [b"0", b"1", b"2"]

    @pytest.mark.parametrize("way", ["subscribe", "assign"])
    async def test_another_expression_holds_at_once(self, cluster: Cluster, way: str) -> None:
        cluster.create_topic("T", queues=1)
        for body in numbered(6):
            await send_all(cluster, [body], tags="TagA" if int(body) < 3 else "TagB")
        consumer = LitePullConsumer("readers", namesrv=cluster.namesrv, pull_batch_size=1, consume_from="first")

        def choose(expression: str) -> None:
            if way == "subscribe":
                consumer.subscribe("T", expression)
            else:
                consumer.assign([QUEUE], expression)

        choose("TagA")
        async with consumer:
            assert await poll_bodies(consumer, 1) == [b"0"]
            held = consumer._started().queues.held[QUEUE]
            await until(lambda: held.cache.count == 2)  # fetched by the old expression
            choose("TagB")
            assert await poll_bodies(consumer, 3) == [b"3", b"4", b"5"]
            choose("TagB")
            assert held.pulling is not None
            assert not held.pulling.cancelling()

    async def test_members_divide_the_queues(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=4)
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as first:
            first.subscribe("T")
            await until(lambda: len(first.assigned) == 4)
            async with LitePullConsumer("readers", namesrv=cluster.namesrv) as second:
                second.subscribe("T")
                await until(lambda: len(first.assigned) == len(second.assigned) == 2)
            await until(lambda: len(first.assigned) == 4)
            first.unsubscribe("T")
            await until(lambda: first.assigned == [])


class TestAssigning:
    async def test_only_the_chosen_queues_are_read(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        await send_all(cluster, numbered(20))
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.assign([QUEUE])
            bodies = await poll_bodies(consumer, 10)
            assert len(bodies) == 10
            assert await consumer.poll(timeout_s=0.05) == []
            queues = await consumer.queues("T")
            consumer.assign(queues[1:])
            assert consumer.assigned == queues[1:]
            bodies += await poll_bodies(consumer, 10)
        assert Counter(bodies) == Counter(numbered(20))

    async def test_subscribing_and_assigning_exclude_each_other(self, cluster: Cluster) -> None:
        consumer = LitePullConsumer("readers", namesrv=cluster.namesrv)
        consumer.assign([QUEUE])
        with pytest.raises(IllegalArgument, match="cannot subscribe"):
            consumer.subscribe("T")
        consumer = LitePullConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T")
        with pytest.raises(IllegalArgument, match="cannot assign"):
            consumer.assign([QUEUE])

    async def test_one_can_go_back_and_forth_in_a_queue(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        for body in numbered(5):
            await send_all(cluster, [body])
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.assign([QUEUE])
            assert await poll_bodies(consumer, 5) == numbered(5)
            await consumer.seek(QUEUE, 3)
            assert await poll_bodies(consumer, 2) == [b"3", b"4"]
            await consumer.seek_to_begin(QUEUE)
            assert await poll_bodies(consumer, 5) == numbered(5)
            await consumer.seek_to_time(QUEUE, datetime.now(UTC) - timedelta(days=1))
            assert await poll_bodies(consumer, 5) == numbered(5)
            await consumer.seek_to_end(QUEUE)
            await send_all(cluster, [b"5"])
            assert await poll_bodies(consumer, 1) == [b"5"]
            with pytest.raises(IllegalArgument, match="offsets from 0 to 6"):
                await consumer.seek(QUEUE, 7)
            with pytest.raises(IllegalArgument, match="not one of those"):
                await consumer.seek_to_begin(MessageQueue("T", "broker-a", 1))

    async def test_what_was_fetched_before_a_seek_is_not_handed_out_after_it(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        for body in numbered(5):
            await send_all(cluster, [body])
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.assign([QUEUE])
            await until(lambda: consumer._started().queues.held[QUEUE].cache.count == 5)
            await consumer.seek(QUEUE, 3)
            assert await poll_bodies(consumer, 2) == [b"3", b"4"]

    async def test_a_paused_queue_hands_out_nothing(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.subscribe("T")
            await until(lambda: len(consumer.assigned) == 2)
            consumer.pause([QUEUE])
            await send_all(cluster, numbered(10))
            bodies = await poll_bodies(consumer, 5)
            assert len(bodies) == 5
            assert await consumer.poll(timeout_s=0.1) == []
            consumer.resume([QUEUE])
            bodies += await poll_bodies(consumer, 5)
        assert Counter(bodies) == Counter(numbered(10))


class TestOffsets:
    async def test_a_commit_is_stored_at_once(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        await send_all(cluster, numbered(10))
        async with LitePullConsumer("readers", namesrv=cluster.namesrv, auto_commit=False) as consumer:
            consumer.subscribe("T")
            await poll_bodies(consumer, 10)
            await consumer.commit()
            assert cluster.stored_offset("readers", "T", 0) == 10
            await consumer.commit({QUEUE: 4})
            assert await consumer.committed(QUEUE) == 4
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.subscribe("T")
            assert len(await poll_bodies(consumer, 6)) == 6

    async def test_a_commit_that_was_not_stored_raises(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"0", b"1")
            async with LitePullConsumer("readers", namesrv=scripted.namesrv, auto_commit=False) as consumer:
                consumer.subscribe("T")
                await poll_bodies(consumer, 2)
                broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, refuse(1, "disk is gone"))
                with pytest.raises(BrokerError, match="disk is gone") as raised:
                    await consumer.commit()
                assert str(QUEUE) in raised.value.__notes__[0]
                broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, broker._keep_offset)
                await consumer.commit()
                assert broker.offset == 2

    async def test_a_queue_that_is_not_read_cannot_be_committed(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.assign([QUEUE])
            with pytest.raises(IllegalArgument, match="not one of those that are read now"):
                await consumer.commit({QUEUE: 0, MessageQueue("T", "broker-a", 7): 5})
        assert cluster.stored_offset("readers", "T", 7) is None

    async def test_an_offset_that_was_only_read_is_not_stored(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"0", b"1")
            async with LitePullConsumer("readers", namesrv=scripted.namesrv, auto_commit=False) as consumer:
                consumer.assign([QUEUE])
                assert await poll_bodies(consumer, 2) == [b"0", b"1"]
                await consumer._member.persist_offsets()
            assert broker.count(RequestCode.QUERY_CONSUMER_OFFSET) == 1
            assert broker.count(RequestCode.UPDATE_CONSUMER_OFFSET) == 0

    async def test_without_a_commit_everything_comes_again(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        await send_all(cluster, numbered(10))
        for _ in range(2):
            async with LitePullConsumer("readers", namesrv=cluster.namesrv, auto_commit=False) as consumer:
                consumer.subscribe("T")
                assert len(await poll_bodies(consumer, 10)) == 10

    async def test_at_the_end_what_was_finished_is_committed_and_the_last_batch_is_not(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        await send_all(cluster, numbered(25))
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.subscribe("T")
            first = await consumer.poll()
            second = await consumer.poll()
            assert len(second) > 0
        assert cluster.stored_offset("readers", "T", 0) == len(first)

    async def test_a_broadcasting_consumer_keeps_its_offsets_in_a_file(self, cluster: Cluster, tmp_path: Path) -> None:
        cluster.create_topic("T", queues=1)
        await send_all(cluster, numbered(5))
        for expected in ([*numbered(5)], []):
            consumer = LitePullConsumer(
                "readers",
                namesrv=cluster.namesrv,
                broadcasting=True,
                consume_from="first",
                offsets_directory=tmp_path / "offsets",
            )
            consumer.subscribe("T")
            async with consumer:
                bodies = [message.body for message in await consumer.poll(timeout_s=3 if expected else 0.2)]
                await consumer.commit()
            assert Counter(bodies) == Counter(expected)
        assert list((tmp_path / "offsets").rglob("offsets.json"))


class TestTrouble:
    async def test_polling_goes_on_after_the_broker_was_restarted(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with LitePullConsumer("readers", namesrv=cluster.namesrv) as consumer:
            consumer.subscribe("T")
            await send_all(cluster, [b"1"])
            assert await poll_bodies(consumer, 1) == [b"1"]
            await cluster.stop_broker("broker-a")
            await asyncio.sleep(0.1)
            await cluster.start_broker("broker-a")
            await send_all(cluster, [b"2"])
            assert [message.body for message in await consumer.poll(timeout_s=15)] == [b"2"]

    async def test_closing_ends_a_loop_that_waits_for_messages(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        consumer = LitePullConsumer("readers", namesrv=cluster.namesrv, poll_timeout_s=1000)
        consumer.subscribe("T")
        await consumer.start()

        async def read() -> None:
            async for _ in consumer:
                pass

        reading = asyncio.create_task(read())
        await until(lambda: consumer.assigned)
        await consumer.close()
        await reading
        with pytest.raises(ClientError, match="not started"):
            await consumer.poll()

    @pytest.mark.parametrize(
        "arguments",
        [{"auto_commit_interval_s": 0.5}, {"pull_batch_size": 0}, {"hold_s": 20.0, "hold_timeout_s": 10.0}],
    )
    def test_what_cannot_work_is_refused(self, arguments: dict[str, float]) -> None:
        with pytest.raises(IllegalArgument):
            LitePullConsumer("readers", namesrv="127.0.0.1:1", **arguments)  # type: ignore[arg-type]
