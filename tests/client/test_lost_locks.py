"""In order, a member that was cut off for so long that another one took its queue does not go back to its old place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.client import message_cache, push_member, rebalance
from skyrocketmq.client.moments import Moment
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import Message, MessageQueue, MessageView
from skyrocketmq.ports import SystemClock
from skyrocketmq.testing import FaultyLink
from tests.client.cluster import Cluster, open_cluster, until
from tests.client.test_groups import own
from tests.client.test_push_consumer import Inbox, numbered, send_all

QUEUE = MessageQueue("T", "broker-a", 0)


class SettableClock(SystemClock):
    """A clock that runs ahead of its timers, and whose time of day somebody sets."""

    passed_s = 0.0
    set_by_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + round((self.passed_s + self.set_by_s) * 1000)

    def monotonic(self) -> float:
        return super().monotonic() + self.passed_s


def orderly(cluster: Cluster, inbox: Inbox, **options: Any) -> PushConsumer:
    consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True, **options)
    consumer.subscribe("T", "*", inbox)
    return consumer


async def send_in_order(cluster: Cluster, bodies: list[bytes]) -> None:
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        for body in bodies:
            await producer.send(Message("T", body), queue=QUEUE)


def someone_else_takes(cluster: Cluster, consumer: PushConsumer, *, offset: int) -> None:
    """Another member reads the queue up to an offset, and has its lock still."""
    tables = cluster.brokers["broker-a"].tables
    tables.locks.unlock([QUEUE], group="readers", client_id=consumer.client_id)
    tables.locks.lock([QUEUE], group="readers", client_id="somebody", now_s=SystemClock().monotonic())
    tables.offsets.commit(group="readers", topic="T", queue_id=0, offset=offset)


class TestALostLock:
    async def test_leaves_the_offset_of_the_next_owner_alone(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        await send_in_order(cluster, numbered(3))
        async with orderly(cluster, inbox) as consumer:
            await until(lambda: len(inbox.messages) == 3)
            someone_else_takes(cluster, consumer, offset=50)
            await consumer._started()._renew_locks()
            await consumer.persist_offsets()
            await until(lambda: own(consumer) == [])
        assert cluster.stored_offset("readers", "T", 0) == 50

    async def test_that_ran_out_and_is_confirmed_again_is_lost_if_the_group_went_on(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        await send_in_order(cluster, numbered(3))
        async with orderly(cluster, inbox) as consumer:
            await until(lambda: len(inbox.messages) == 3)
            tables = cluster.brokers["broker-a"].tables
            someone_else_takes(cluster, consumer, offset=7)
            tables.locks.unlock([QUEUE], group="readers", client_id="somebody")
            await _run_out(consumer)
            await send_in_order(cluster, [b"%d" % number for number in range(3, 9)])
            await until(lambda: inbox.bodies[-1:] == [b"8"])
        assert inbox.bodies == [b"0", b"1", b"2", b"7", b"8"]
        assert cluster.stored_offset("readers", "T", 0) == 9

    async def test_that_ran_out_and_is_confirmed_again_goes_on_if_nobody_was_there(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        await send_in_order(cluster, numbered(3))
        async with orderly(cluster, inbox) as consumer:
            await until(lambda: len(inbox.messages) == 3)
            held = consumer._started().held[QUEUE]
            await _run_out(consumer)
            await send_in_order(cluster, [b"3"])
            await until(lambda: len(inbox.messages) == 4)
            assert consumer._started().held[QUEUE] is held
        assert inbox.bodies == numbered(4)

    async def test_runs_out_in_time_though_the_clock_is_set_back(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox, clock = Inbox(), SettableClock()
        await send_in_order(cluster, numbered(3))
        async with orderly(cluster, inbox, clock=clock) as consumer:
            await until(lambda: len(inbox.messages) == 3)
            assert consumer._started()._own_queues() == [QUEUE]
            clock.set_by_s = -600
            assert consumer._started()._own_queues() == [QUEUE]
            clock.passed_s = 31
            assert consumer._started()._own_queues() == []

    async def test_that_ran_out_is_asked_for_once_more_before_the_last_offset_is_stored(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        await send_in_order(cluster, numbered(3))
        async with orderly(cluster, inbox) as consumer:
            await until(lambda: len(inbox.messages) == 3)
            _age_lock(consumer)
        assert cluster.stored_offset("readers", "T", 0) == 3

    async def test_that_ran_out_stores_no_offset(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        await send_in_order(cluster, numbered(3))
        link = FaultyLink()
        async with orderly(cluster, inbox, link=link) as consumer:
            await until(lambda: len(inbox.messages) == 3)
            someone_else_takes(cluster, consumer, offset=50)
            monkeypatch.setattr(message_cache, "LOCK_LIFE_MS", -1)
            await consumer.persist_offsets()
            assert consumer._started()._own_queues() == []
        assert cluster.stored_offset("readers", "T", 0) == 50


async def _run_out(consumer: PushConsumer) -> None:
    """Let half a minute pass without a confirmation, and then one come."""
    _age_lock(consumer)
    await consumer._started()._renew_locks()


def _age_lock(consumer: PushConsumer) -> None:
    cache = consumer._started().held[QUEUE].cache
    cache.locked_at = Moment(cache.locked_at.wall_ms - 31_000, cache.locked_at.monotonic_s - 31)


class TestClosing:
    async def test_keeps_the_lock_of_a_queue_whose_handler_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(push_member, "RENEW_INTERVAL_S", 0.1)
        monkeypatch.setattr(push_member, "RENEW_FIRST_AFTER_S", 0.1)
        async with open_cluster(tmp_path, settings={"rocketmq.broker.rebalance.lockMaxLiveTime": "500"}) as cluster:
            cluster.create_topic("T", queues=1)
            entered, released = asyncio.Event(), asyncio.Event()
            consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)

            @consumer.subscribe("T")
            async def read(message: MessageView) -> None:
                entered.set()
                await released.wait()

            await send_all(cluster, [b"x"])
            await consumer.start()
            await entered.wait()
            closing = asyncio.create_task(consumer.close())
            await asyncio.sleep(1.2)  # more than two lives of a lock
            locks = cluster.brokers["broker-a"].tables.locks
            now_s = SystemClock().monotonic()
            assert not locks.lock([QUEUE], group="readers", client_id="somebody", now_s=now_s)
            released.set()
            await closing
            assert locks.lock([QUEUE], group="readers", client_id="somebody", now_s=now_s)
            assert cluster.stored_offset("readers", "T", 0) == 1


async def test_a_queue_that_waited_for_its_handler_goes_as_soon_as_that_is_done(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance, "REPEAT_FIRST_S", 20.0)  # a round that could not be finished is not repeated soon
    cluster.create_topic("T", queues=2)
    entered, released = asyncio.Event(), asyncio.Event()
    first, second = (PushConsumer("readers", namesrv=cluster.namesrv, orderly=True) for _ in range(2))

    @first.subscribe("T")
    async def read_slowly(message: MessageView) -> None:
        entered.set()
        await released.wait()

    second.subscribe("T", "*", Inbox())
    async with Producer("senders", namesrv=cluster.namesrv) as producer, first:
        await until(lambda: len(own(first)) == 2)
        for queue in await producer.queues("T"):
            await producer.send(Message("T", b"x"), queue=queue)
        await entered.wait()
        async with second:
            await until(lambda: any(held.is_leaving for held in first._started().held.values()))
            await asyncio.sleep(1.3)  # longer than a round waits for a handler
            released.set()
            await until(lambda: len(own(first)) == 1)
