"""What went wrong with groups of the family: progress lost, messages multiplied, queues that nobody reads any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocketmq import Message, MessageView, Producer, PushConsumer
from skyrocketmq.admin import Admin
from skyrocketmq.model import MessageQueue
from skyrocketmq.testing import LocalCluster, ManualClock
from skyrocketmq.wire.codes import RequestCode
from tests.broker.requests import TOPIC
from tests.broker.test_retry import back_frame, open_shop
from tests.ha.pair import Member, open_pair
from tests.ha.test_slave_tables import GROUP, commit, open_queues, synced
from tests.waiting import until


async def offset_by_request(member: Member) -> int:
    """Where the group goes on, as a consumer that starts is told."""
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0}
    answer = await member.administer(RequestCode.QUERY_CONSUMER_OFFSET, ext)
    assert answer.ext is not None
    return int(answer.ext["offset"] or -1)


async def test_alibaba_28_a_restart_of_the_master_takes_no_group_back_to_the_beginning() -> None:
    async with open_pair() as pair:
        await open_queues(pair)
        await commit(pair.master, 50)
        await synced(pair)
        await pair.master.stop()
        assert await offset_by_request(pair.slave) == 50
        await pair.master.start()
        assert await offset_by_request(pair.master) == 50
        await synced(pair)
        assert await offset_by_request(pair.slave) == 50


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started-afterwards"])
async def test_apache_3503_a_group_goes_on_where_it_was_after_a_restart_of_its_broker(is_running: bool) -> None:
    bodies: list[int] = []
    async with LocalCluster() as cluster, Producer("shop", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T", queues=1)
        for number in range(30):
            await producer.send(Message("T", b"%d" % number))
        consumer = PushConsumer("billing", namesrv=cluster.namesrv, consume_from="first")
        consumer.subscribe("T", "*", lambda message: bodies.append(int(message.body)))
        await consumer.start()
        await cluster.wait_consumed("billing", "T")
        if not is_running:
            await consumer.close()
        await cluster.restart_broker()
        if not is_running:
            await consumer.start()
        await producer.send(Message("T", b"30"))
        await until(lambda: 30 in bodies)
        await consumer.close()
    assert sorted(bodies) == list(range(31))


async def test_apache_1589_two_members_under_one_name_do_not_double_a_message_at_each_attempt() -> None:
    async with open_shop() as shop:
        members = [shop.peer, await shop.house.connect()]
        await shop.send(more=[("UNIQ_KEY", "A" * 32)])
        places, attempts = [0], 0
        for _ in range(8):
            for place in places:
                for member in members:
                    await member.ok(back_frame(place, level=1))
            await shop.clock.advance(1.5)
            copies = await shop.retries()
            places, attempts = [copy.log_offset for copy in copies[attempts:]], len(copies)
        assert attempts == 8, "one an attempt, not 2 + 4 + 8 + ..."


async def test_apache_3613_messages_whose_key_only_shares_a_hash_are_left_out() -> None:
    async with LocalCluster() as cluster, Producer("shop", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T", queues=1)
        for key in ("Aa", "BB"):
            await producer.send(Message("T", key.encode(), keys=[key]))
        async with Admin(namesrv=cluster.namesrv) as admin:
            assert [found.body for found in await admin.messages.by_key("T", "Aa")] == [b"Aa"]


async def test_alibaba_459_a_queue_whose_handler_fails_for_ten_minutes_goes_on_in_order() -> None:
    clock, is_down = ManualClock(), True
    bodies: list[int] = []
    calls = 0
    async with (
        LocalCluster(clock=clock) as cluster,
        Producer("shop", namesrv=cluster.namesrv, clock=clock) as producer,
    ):
        await cluster.create_topic("T", queues=1)
        for number in range(20):
            await producer.send(Message("T", b"%d" % number), queue=MessageQueue("T", "broker-a", 0))
        consumer = PushConsumer(
            "billing", namesrv=cluster.namesrv, consume_from="first", orderly=True, cache_count_max=5, clock=clock
        )

        @consumer.subscribe("T")
        async def bill(message: MessageView) -> None:
            nonlocal calls
            calls += 1
            if is_down:
                raise ConnectionError("the search engine is down")
            bodies.append(int(message.body))

        async with consumer:
            await until(lambda: calls)
            held = dict(consumer._started().held)
            await cluster.advance(minutes=10)
            assert calls > 10, "it was tried again and again"
            is_down = False
            await cluster.advance(seconds=5)
            await until(lambda: len(bodies) == 20)
            queue = next(queue for queue in held if queue.topic == "T")
            assert consumer._started().held[queue] is held[queue], "it was not dropped and taken anew"
    assert bodies == list(range(20))


async def test_alibaba_331_members_that_broadcast_in_order_wait_for_nobodys_lock(tmp_path: Path) -> None:
    clock = ManualClock()
    bodies: dict[str, list[int]] = {"first": [], "second": []}
    async with (
        LocalCluster(clock=clock) as cluster,
        Producer("shop", namesrv=cluster.namesrv, clock=clock) as producer,
    ):
        await cluster.create_topic("T", queues=1)

        def reader(name: str) -> PushConsumer:
            consumer = PushConsumer(
                "readers",
                namesrv=cluster.namesrv,
                broadcasting=True,
                orderly=True,
                consume_from="first",
                instance_name=name,
                offsets_directory=tmp_path,
                clock=clock,
            )
            consumer.subscribe("T", "*", lambda message: bodies[name].append(int(message.body)))
            return consumer

        async with reader("first"), reader("second"):
            for number in range(20):
                await producer.send(Message("T", b"%d" % number))
            await until(lambda: all(len(seen) == 20 for seen in bodies.values()))
            await cluster.advance(minutes=2)  # longer than any lock would last
            await producer.send(Message("T", b"20"))
            await until(lambda: all(len(seen) == 21 for seen in bodies.values()))
    assert bodies == {"first": list(range(21)), "second": list(range(21))}
