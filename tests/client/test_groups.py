"""Members of a group: they share the queues, and go on when one comes, leaves or dies."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import pytest

from skyrocketmq.client.allocation import average_by_circle
from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.client.selectors import select_by_hash
from skyrocketmq.model import HeartbeatData, Message, MessageQueue, MessageView
from skyrocketmq.ports import SystemClock
from skyrocketmq.testing import FaultyLink
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from tests.client.cluster import Cluster, until
from tests.client.scripted import open_scripted, place
from tests.client.test_push_consumer import Inbox, numbered, send_all


def own(consumer: PushConsumer, topic: str = "T") -> list[MessageQueue]:
    return [queue for queue in consumer.queues if queue.topic == topic]


def reader(cluster: Cluster, inbox: Inbox, *, orderly: bool = False, link: FaultyLink | None = None) -> PushConsumer:
    if link is not None:
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=orderly, link=link)
    else:
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=orderly)
    consumer.subscribe("T", "*", inbox)
    return consumer


class TestSharing:
    async def test_members_divide_the_queues_and_take_over_from_one_that_leaves(self, two_brokers: Cluster) -> None:
        two_brokers.create_topic("T", queues=4)
        first, second = reader(two_brokers, Inbox()), reader(two_brokers, Inbox())
        async with first:
            await until(lambda: len(own(first)) == 8)
            async with second:
                assert first.client_id != second.client_id
                await until(lambda: len(own(first)) == 4 and len(own(second)) == 4)
                assert not set(own(first)) & set(own(second))
                assert {queue.broker_name for queue in own(first)} == {"broker-a"} or {
                    queue.broker_name for queue in own(second)
                } == {"broker-a"}
            await until(lambda: len(own(first)) == 8)

    async def test_another_strategy_divides_otherwise(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=4)
        members = [PushConsumer("readers", namesrv=cluster.namesrv, allocation=average_by_circle) for _ in range(2)]
        for member in members:
            member.subscribe("T", "*", Inbox())
        async with members[0], members[1]:
            await until(lambda: all(len(own(member)) == 2 for member in members))
            assert {tuple(queue.queue_id for queue in own(member)) for member in members} == {(0, 2), (1, 3)}

    async def test_more_members_than_queues_leave_some_idle(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        members = [reader(cluster, Inbox()) for _ in range(3)]
        async with members[0], members[1], members[2]:
            await until(lambda: sorted(len(own(member)) for member in members) == [0, 1, 1])

    async def test_a_member_that_dies_is_replaced(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=4)
        link = FaultyLink()
        first, second = reader(cluster, Inbox()), reader(cluster, Inbox(), link=link)
        async with first, second:
            await until(lambda: len(own(first)) == len(own(second)) == 2)
            link.is_refusing = True
            link.cut()
            await until(lambda: len(own(first)) == 4)
            link.is_refusing = False
            await until(lambda: len(own(first)) == len(own(second)) == 2, seconds=15)

    async def test_nothing_is_missed_while_members_come_and_go(self, two_brokers: Cluster) -> None:
        two_brokers.create_topic("T", queues=4)
        inbox = Inbox()
        total = 0
        async with Producer("senders", namesrv=two_brokers.namesrv) as producer, reader(two_brokers, inbox):
            for _ in range(3):
                async with reader(two_brokers, inbox):
                    for number in range(total, total + 100):
                        await producer.send(Message("T", b"%d" % number))
                    total += 100
            await until(lambda: len(set(inbox.bodies)) == total)
        assert set(inbox.bodies) == set(numbered(total))

    async def test_a_broker_that_joins_is_read_too(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, poll_name_server_interval_s=0.2)
        inbox = Inbox()
        consumer.subscribe("T", "*", inbox)
        async with consumer:
            await until(lambda: len(own(consumer)) == 2)
            await cluster.start_broker("broker-b")
            cluster.create_topic("T", queues=2)
            await until(lambda: len(own(consumer)) == 4)

    async def test_two_groups_in_one_process_share_a_client_and_get_everything_each(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        inboxes = [Inbox(), Inbox()]
        consumers = [PushConsumer(f"readers-{number}", namesrv=cluster.namesrv) for number in range(2)]
        for consumer, inbox in zip(consumers, inboxes, strict=True):
            consumer.subscribe("T", "*", inbox)
        async with consumers[0], consumers[1]:
            assert consumers[0].client_id == consumers[1].client_id
            await send_all(cluster, numbered(20))
            await until(lambda: all(len(inbox.messages) == 20 for inbox in inboxes))


class Ledger:
    """A handler that writes down who had what, and finds two at work on one queue."""

    def __init__(self) -> None:
        self.busy: set[MessageQueue] = set()
        self.by_queue: dict[MessageQueue, list[int]] = defaultdict(list)
        self.clashes: list[MessageQueue] = []

    async def __call__(self, message: MessageView) -> None:
        if message.queue in self.busy:
            self.clashes.append(message.queue)
        self.busy.add(message.queue)
        await asyncio.sleep(0.001)
        self.by_queue[message.queue].append(message.queue_offset)
        self.busy.discard(message.queue)

    @property
    def count(self) -> int:
        return sum(len(set(offsets)) for offsets in self.by_queue.values())

    def check_order(self) -> None:
        """Offsets rise by one each; only after a change of owner may some come again."""
        assert self.clashes == []
        for offsets in self.by_queue.values():
            highest = -1
            for offset in offsets:
                assert offset <= highest + 1, "a message was skipped"
                highest = max(highest, offset)


class TestPulling:
    async def test_pulls_name_a_version_of_the_subscription_that_the_broker_has_heard_of(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T", queues=2)
            broker = scripted.brokers["broker-a"]
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)
            consumer.subscribe("T", "*", Inbox())

            async def find_nothing(frame: Frame) -> Frame:
                await asyncio.sleep(0.01)
                return frame.reply(ResponseCode.PULL_NOT_FOUND, ext=place(0, 0))

            async def hear_slowly(frame: Frame) -> Frame:
                await asyncio.sleep(0.3)
                return frame.reply()

            broker.on(RequestCode.PULL_MESSAGE, find_nothing)
            async with consumer:
                await until(lambda: len(own(consumer)) == 2)
                await asyncio.sleep(0.1)
                broker.on(RequestCode.HEART_BEAT, hear_slowly)
                for members in (["zzz"], [], ["zzz"]):  # all while the broker ponders the first heartbeat about it
                    broker.client_ids[:] = [consumer.client_id, *members]
                    consumer.members_changed()
                    await until(lambda: len(own(consumer)) == 2 - len(members))  # noqa: B023
                    await asyncio.sleep(0.05)

            heard = 0
            for frame in broker.received:
                if frame.code == RequestCode.HEART_BEAT:
                    [data] = decode_body(HeartbeatData, frame.body).consumer_data_set
                    heard = max(one.sub_version for one in data.subscription_data_set if one.topic == "T")
                elif frame.code == RequestCode.PULL_MESSAGE:
                    assert frame.ext is not None
                    assert int(frame.ext["subVersion"] or 0) <= heard
            assert broker.count(RequestCode.PULL_MESSAGE) > 10

    async def test_another_expression_is_pulled_by_at_once(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "TagA", inbox)
        async with Producer("senders", namesrv=cluster.namesrv) as producer, consumer:
            await until(lambda: own(consumer))
            consumer.subscribe("T", "TagB", inbox)
            await producer.send(Message("T", b"old", tags="TagA"))
            await asyncio.sleep(0.5)  # a pull that was held with the old expression ends with that message
            await producer.send(Message("T", b"new", tags="TagB"))
            await until(lambda: b"new" in inbox.bodies)


class TestOrder:
    async def test_each_queue_is_consumed_in_order_while_queues_run_side_by_side(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=4)
        ledger = Ledger()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)
        consumer.subscribe("T", "*", ledger)
        async with Producer("senders", namesrv=cluster.namesrv) as producer, consumer:
            for number in range(100):
                await producer.send(Message("T", b"%d" % number), selector=select_by_hash, arg=number % 7)
            await until(lambda: ledger.count == 100)
        ledger.check_order()
        for queue, offsets in ledger.by_queue.items():
            assert offsets == list(range(len(offsets)))
            assert cluster.stored_offset("readers", "T", queue.queue_id) == len(offsets)

    async def test_order_holds_while_a_second_member_comes_and_goes(self, two_brokers: Cluster) -> None:
        two_brokers.create_topic("T", queues=2)
        ledger = Ledger()
        sent = 0
        first = PushConsumer("readers", namesrv=two_brokers.namesrv, orderly=True)
        first.subscribe("T", "*", ledger)
        async with Producer("senders", namesrv=two_brokers.namesrv) as producer, first:
            await until(lambda: len(own(first)) == 4)
            for _ in range(3):
                second = PushConsumer("readers", namesrv=two_brokers.namesrv, orderly=True)
                second.subscribe("T", "*", ledger)
                async with second:
                    for _ in range(60):
                        await producer.send(Message("T", b"x"))
                        sent += 1
                    await until(lambda: len(own(first)) == len(own(second)) == 2)  # noqa: B023
                    for _ in range(60):
                        await producer.send(Message("T", b"x"))
                        sent += 1
                await until(lambda: len(own(first)) == 4)
            await until(lambda: ledger.count == sent)
        ledger.check_order()

    async def test_a_message_that_fails_holds_up_its_queue_only(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        seen: list[tuple[int, bytes, int]] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True, pause_s=0.05)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            seen.append((message.queue_id, message.body, message.reconsume_times))
            if message.body == b"bad" and message.reconsume_times < 3:
                raise ValueError

        async with Producer("senders", namesrv=cluster.namesrv) as producer, consumer:
            queues = await producer.queues("T")
            for queue in queues:
                for body in (b"bad" if queue.queue_id == 0 else b"good", b"next"):
                    await producer.send(Message("T", body), queue=queue)
            await until(lambda: len(seen) == 7)
        assert [entry[1:] for entry in seen if entry[0] == 0] == [
            (b"bad", 0), (b"bad", 1), (b"bad", 2), (b"bad", 3), (b"next", 0),
        ]  # fmt: skip
        assert [entry[1] for entry in seen if entry[0] == 1] == [b"good", b"next"]

    async def test_a_message_that_was_tried_often_enough_goes_to_the_dead_letters(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        seen: list[tuple[bytes, int]] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True, pause_s=0.01, retry_count_max=2)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            seen.append((message.body, message.reconsume_times))
            if message.body == b"bad":
                raise ValueError

        async with consumer:
            await until(lambda: any(queue.topic == "%RETRY%readers" for queue in consumer.queues))
            async with Producer("senders", namesrv=cluster.namesrv) as producer:
                await producer.send(Message("T", b"bad"))
                await producer.send(Message("T", b"good"))
            await until(lambda: (b"good", 0) in seen)
        assert seen == [(b"bad", 0), (b"bad", 1), (b"bad", 2), (b"good", 0)]
        assert cluster.stored_offset("readers", "T", 0) == 2

    async def test_a_list_is_tried_again_as_a_whole(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        calls: list[list[bytes]] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True, pause_s=0.01)

        @consumer.subscribe("T", batch=3)
        async def read(messages: list[MessageView]) -> None:
            calls.append([message.body for message in messages])
            if len(calls) == 1:
                raise ValueError

        await send_all(cluster, [b"0"])
        await send_all(cluster, [b"1"])
        await send_all(cluster, [b"2"])
        async with consumer:
            await until(lambda: len(calls) == 2)
        assert calls == [[b"0", b"1", b"2"]] * 2
        assert cluster.stored_offset("readers", "T", 0) == 3

    async def test_without_auto_commit_nothing_counts_before_a_commit(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        seen: list[bytes] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True, auto_commit=False, pause_s=0.01)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> ConsumeResult | None:
            seen.append(message.body)
            if message.body == b"2" and seen.count(b"2") == 1:
                return ConsumeResult.ROLLBACK
            return ConsumeResult.COMMIT if message.body == b"2" else None

        for body in numbered(4):
            await send_all(cluster, [body])
        async with consumer:
            await until(lambda: seen.count(b"3") == 1)
        assert seen == [b"0", b"1", b"2", b"0", b"1", b"2", b"3"]
        assert cluster.stored_offset("readers", "T", 0) == 3

    async def test_a_queue_that_another_member_has_locked_is_not_read(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        locks = cluster.brokers["broker-a"].tables.locks
        queue = MessageQueue("T", "broker-a", 0)
        locks.lock([queue], group="readers", client_id="somebody", now_s=SystemClock().monotonic())
        consumer = reader(cluster, inbox, orderly=True)
        await send_all(cluster, [b"x"])
        async with consumer:
            await asyncio.sleep(0.3)
            assert own(consumer) == []
            locks.unlock([queue], group="readers", client_id="somebody")
            await until(lambda: inbox.messages)

    async def test_a_queue_is_not_given_up_while_a_handler_works_on_it(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        entered, released = asyncio.Event(), asyncio.Event()
        ledger = Ledger()
        first = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)
        second = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)

        @first.subscribe("T")
        async def read(message: MessageView) -> None:
            ledger.busy.add(message.queue)
            entered.set()
            await released.wait()
            ledger.busy.discard(message.queue)
            await ledger(message)

        second.subscribe("T", "*", ledger)
        async with Producer("senders", namesrv=cluster.namesrv) as producer, first:
            await until(lambda: len(own(first)) == 2)
            for queue in await producer.queues("T"):
                for _ in range(3):
                    await producer.send(Message("T", b"x"), queue=queue)
            await entered.wait()
            async with second:
                await asyncio.sleep(1.6)
                assert own(second) == []
                released.set()
                await until(lambda: len(own(second)) == 1)
                await until(lambda: ledger.count == 6)
        ledger.check_order()

    @pytest.mark.parametrize("takes_s", [0.3, 1.6])  # shorter and longer than a round of division waits
    async def test_what_a_handler_finishes_while_its_queue_is_handed_over_is_not_done_again(
        self, cluster: Cluster, takes_s: float
    ) -> None:
        cluster.create_topic("T", queues=2)
        entered, released = asyncio.Event(), asyncio.Event()
        done: list[tuple[int, int]] = []
        first = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)
        second = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)

        @first.subscribe("T")
        async def read_slowly(message: MessageView) -> None:
            entered.set()
            await released.wait()
            done.append((message.queue_id, message.queue_offset))

        @second.subscribe("T")
        async def read(message: MessageView) -> None:
            done.append((message.queue_id, message.queue_offset))

        async with Producer("senders", namesrv=cluster.namesrv) as producer, first:
            await until(lambda: len(own(first)) == 2)
            for queue in await producer.queues("T"):
                for _ in range(3):
                    await producer.send(Message("T", b"x"), queue=queue)
            await entered.wait()
            async with second:
                await asyncio.sleep(takes_s)
                released.set()
                await until(lambda: len(own(second)) == 1)
                await until(lambda: len(done) == 6)
        assert Counter(done) == Counter((queue, offset) for queue in range(2) for offset in range(3))

    async def test_what_a_handler_finishes_after_its_queue_was_lost_does_not_count(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        entered, released = asyncio.Event(), asyncio.Event()
        locks = cluster.brokers["broker-a"].tables.locks
        queue = MessageQueue("T", "broker-a", 0)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            entered.set()
            await released.wait()

        await send_all(cluster, [b"0"])
        async with consumer:
            await entered.wait()
            locks.unlock([queue], group="readers", client_id=consumer.client_id)
            locks.lock([queue], group="readers", client_id="somebody", now_s=SystemClock().monotonic())
            await consumer._started()._renew_locks()
            released.set()
            await until(lambda: own(consumer) == [])
            await consumer.persist_offsets()
        assert not cluster.stored_offset("readers", "T", 0)

    async def test_a_queue_whose_lock_another_member_has_is_let_go_and_taken_anew(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        broker = cluster.brokers["broker-a"]
        queue = MessageQueue("T", "broker-a", 0)
        consumer = reader(cluster, inbox, orderly=True)
        await send_all(cluster, [b"0"])
        async with consumer:
            await until(lambda: inbox.messages)
            broker.tables.locks.unlock([queue], group="readers", client_id=consumer.client_id)
            broker.tables.locks.lock([queue], group="readers", client_id="somebody", now_s=SystemClock().monotonic())
            await consumer._started()._renew_locks()
            await until(lambda: own(consumer) == [])
            await send_all(cluster, [b"1"])
            broker.tables.offsets.commit(group="readers", topic="T", queue_id=0, offset=2)  # as the other one has it
            broker.tables.locks.unlock([queue], group="readers", client_id="somebody")
            await until(lambda: own(consumer) == [queue])
            await send_all(cluster, [b"2"])
            await until(lambda: len(inbox.messages) == 2)
        assert inbox.bodies == [b"0", b"2"]

    async def test_the_locks_are_given_back_at_the_end(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        for _ in range(2):
            inbox = Inbox()
            consumer = reader(cluster, inbox, orderly=True)
            await send_all(cluster, numbered(4))
            async with consumer:
                await until(lambda: len(inbox.messages) == 4)  # noqa: B023
            assert Counter(inbox.bodies) == Counter(numbered(4))
