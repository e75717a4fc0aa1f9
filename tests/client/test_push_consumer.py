from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skyrocketmq.client import consume_concurrently
from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.message_selector import MessageSelector
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.client.push_options import PushOptions
from skyrocketmq.errors import ClientError, IllegalArgument
from skyrocketmq.model import BrokerData, Message, MessageView, QueueData, TopicRoute
from skyrocketmq.testing import FaultyLink, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.client.cluster import Cluster, open_cluster, until
from tests.client.scripted import open_scripted, place, refuse

QUICK_RETRIES = {"messageDelayLevel": " ".join(["0s"] * 18)}


class Inbox:
    """A handler that remembers what it got."""

    def __init__(self) -> None:
        self.messages: list[MessageView] = []

    async def __call__(self, message: MessageView) -> None:
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


async def send_all(cluster: Cluster, bodies: list[bytes], *, topic: str = "T", tags: str | None = None) -> None:
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        await asyncio.gather(*(producer.send(Message(topic, body, tags=tags)) for body in bodies))


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


class TestConsuming:
    async def test_every_message_is_consumed_once(self, two_brokers: Cluster) -> None:
        two_brokers.create_topic("T")
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=two_brokers.namesrv)
        consumer.subscribe("T", "*", inbox)
        await send_all(two_brokers, numbered(200))
        async with consumer:
            await until(lambda: len(inbox.messages) >= 200)
            await send_all(two_brokers, [b"later"])
            await until(lambda: b"later" in inbox.bodies)
        assert Counter(inbox.bodies) == Counter([*numbered(200), b"later"])

    async def test_a_message_shows_all_that_is_known_of_it(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T")(inbox)
        async with consumer, Producer("senders", namesrv=cluster.namesrv) as producer:
            sent = await producer.send(
                Message("T", b"x" * 5000, tags="A", keys=["k1", "k2"], properties={"colour": "blue"})
            )
            await until(lambda: inbox.messages)
        (message,) = inbox.messages
        assert (message.topic, message.body, message.tags, message.keys) == ("T", b"x" * 5000, "A", ("k1", "k2"))
        assert (message.msg_id, message.offset_msg_id) == (sent.msg_id, sent.offset_msg_id)
        assert (message.queue, message.queue_offset) == (sent.queue, sent.queue_offset)
        assert message.user_properties == {"colour": "blue"}
        assert message.properties["MAX_OFFSET"] == "1"
        assert message.reconsume_times == 0
        assert message.store_timestamp >= message.born_timestamp > 0

    async def test_only_messages_with_the_wanted_tags_come(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "A || B", inbox)
        async with consumer:
            for tag in ("A", "C", "B", None):
                await send_all(cluster, [str(tag).encode()], tags=tag)
            await until(lambda: len(inbox.messages) == 2)
            # The offset passes what was filtered out, so that it is not looked at again.
            await until(lambda: cluster.brokers["broker-a"].store.max_offset("T", 0) == 4)
        assert inbox.bodies == [b"A", b"B"]
        assert cluster.stored_offset("readers", "T", 0) in (3, 4)

    async def test_plain_functions_run_in_threads(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        seen: list[tuple[bytes, str]] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, concurrency=3)

        @consumer.subscribe("T")
        def read(message: MessageView) -> None:
            seen.append((message.body, threading.current_thread().name))

        async with consumer:
            await send_all(cluster, numbered(50))
            await until(lambda: len(seen) == 50)
        assert {body for body, _ in seen} == set(numbered(50))
        assert all(name.startswith("consume-readers") for _, name in seen)

    async def test_a_list_has_no_more_messages_than_wanted(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        lists: list[list[bytes]] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)

        @consumer.subscribe("T", batch=8)
        async def read(messages: list[MessageView]) -> None:
            lists.append([message.body for message in messages])

        await send_all(cluster, numbered(30))
        async with consumer:
            await until(lambda: sum(map(len, lists)) == 30)
        assert max(map(len, lists)) == 8
        assert cluster.stored_offset("readers", "T", 0) == 30

    async def test_handlers_run_at_a_time_but_not_more_than_allowed(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        running = most = done = 0
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, concurrency=5)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            nonlocal running, most, done
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            done += 1

        await send_all(cluster, numbered(40))
        async with consumer:
            await until(lambda: done == 40)
        assert most == 5

    async def test_topics_have_handlers_of_their_own_and_may_come_and_go(self, cluster: Cluster) -> None:
        for topic in ("T", "U"):
            cluster.create_topic(topic, queues=1)
        inboxes = {"T": Inbox(), "U": Inbox()}
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inboxes["T"])
        async with consumer:
            await until(lambda: any(queue.topic == "T" for queue in consumer.queues))
            consumer.subscribe("U", "*", inboxes["U"])
            await send_all(cluster, [b"t"], topic="T")
            await send_all(cluster, [b"u"], topic="U")
            await until(lambda: inboxes["T"].messages and inboxes["U"].messages)
            consumer.unsubscribe("T")
            await until(lambda: not any(queue.topic == "T" for queue in consumer.queues))
            await send_all(cluster, [b"u"], topic="U")
            await until(lambda: len(inboxes["U"].messages) == 2)
        assert inboxes["T"].bodies == [b"t"]

    async def test_a_topic_that_is_let_be_leaves_nothing_for_another_attempt(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            scripted.add_topic("U")
            broker = scripted.brokers["broker-a"]
            answers: list[asyncio.Future[Frame]] = []

            async def hold(frame: Frame) -> Frame:
                assert frame.ext is not None
                if frame.ext.get("topic") != "T":
                    await asyncio.Event().wait()
                answers.append(asyncio.get_running_loop().create_future())
                return await answers[-1]

            broker.on(RequestCode.PULL_MESSAGE, hold)
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)
            for topic in ("T", "U"):
                consumer.subscribe(topic, "*", Inbox())
            async with consumer:
                await until(lambda: answers)
                broker.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, hold)  # no round of division is finished any more
                consumer.unsubscribe("T")
                broker.add_messages(b"late")
                frame = next(f for f in broker.frames(RequestCode.PULL_MESSAGE) if f.ext and f.ext["topic"] == "T")
                answers[0].set_result(frame.reply(ext=place(1, 1), body=broker.records[0]))
                await asyncio.sleep(0.2)
            assert broker.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 0

    async def test_a_topic_that_comes_later_is_consumed_when_it_does(self, cluster: Cluster) -> None:
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inbox)
        async with consumer:
            await send_all(cluster, [b"x"])
            await until(lambda: inbox.messages)


class TestOffsets:
    async def test_a_group_goes_on_where_it_stopped(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        for round_number in range(3):
            inbox = Inbox()
            consumer = PushConsumer("readers", namesrv=cluster.namesrv)
            consumer.subscribe("T", "*", inbox)
            bodies = [b"%d-%d" % (round_number, number) for number in range(20)]
            await send_all(cluster, bodies)
            async with consumer:
                await until(lambda: len(inbox.messages) >= 20)  # noqa: B023
            assert Counter(inbox.bodies) == Counter(bodies)

    @pytest.mark.parametrize(
        ("consume_from", "expected"),
        [("last", "30"), ("first", "0"), (datetime(2024, 1, 1, tzinfo=UTC), "7")],
    )
    async def test_a_new_group_begins_where_it_was_told(self, consume_from: str, expected: str) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.offset = None
            broker.on(RequestCode.GET_MAX_OFFSET, lambda frame: frame.reply(ext={"offset": "30"}))
            broker.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, lambda frame: frame.reply(ext={"offset": "7"}))
            consumer = PushConsumer("readers", namesrv=scripted.namesrv, consume_from=consume_from)  # type: ignore[arg-type]
            consumer.subscribe("T", "*", Inbox())
            async with consumer:
                await until(lambda: broker.count(RequestCode.PULL_MESSAGE))
            (pull,) = [frame for frame in broker.received if frame.code == RequestCode.PULL_MESSAGE]
            assert pull.ext is not None
            assert pull.ext["queueOffset"] == expected
            searches = [frame.ext for frame in broker.received if frame.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP]
            assert [ext["timestamp"] for ext in searches if ext] == (["1704067200000"] if expected == "7" else [])

    async def test_an_offset_that_is_not_known_does_not_begin_a_queue(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.on(RequestCode.QUERY_CONSUMER_OFFSET, refuse(1, "not now"))
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)
            consumer.subscribe("T", "*", Inbox())
            async with consumer:
                await until(lambda: broker.count(RequestCode.QUERY_CONSUMER_OFFSET) >= 2)
                assert not broker.count(RequestCode.PULL_MESSAGE)
                assert consumer.queues == []

    async def test_offsets_are_stored_every_few_seconds_and_ride_on_pulls(self) -> None:
        clock = ManualClock()
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"a", b"b", b"c")
            inbox = Inbox()
            consumer = PushConsumer("readers", namesrv=scripted.namesrv, clock=clock)
            consumer.subscribe("T", "*", inbox)
            async with consumer:
                await until(lambda: len(inbox.messages) == 3)
                for _ in range(30):
                    await clock.advance(0.5)
                await until(lambda: broker.offset == 3)
                broker.offset = 0
                await clock.advance(5)
                await until(lambda: broker.offset == 3)

    async def test_an_offset_that_the_broker_refuses_is_replaced(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.offset = 100
            broker.add_messages(b"a", b"b", b"c")

            def pull(frame: Frame) -> object:
                assert frame.ext is not None
                if frame.ext["queueOffset"] == "100":
                    return frame.reply(21, ext=place(2, 3))
                return broker.pull(frame)

            broker.on(RequestCode.PULL_MESSAGE, pull)  # type: ignore[arg-type]
            inbox = Inbox()
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)
            consumer.subscribe("T", "*", inbox)
            async with consumer:
                await until(lambda: inbox.messages)
            assert inbox.bodies == [b"c"]
            assert broker.offset == 3

    async def test_what_was_filtered_out_counts_as_consumed(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]

            def pull(frame: Frame) -> object:
                assert frame.ext is not None
                if frame.ext["queueOffset"] == "0":
                    return frame.reply(20, ext=place(50, 50))
                return broker.pull(frame)

            broker.on(RequestCode.PULL_MESSAGE, pull)  # type: ignore[arg-type]
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)
            consumer.subscribe("T", "A", Inbox())
            async with consumer:
                await until(lambda: broker.count(RequestCode.PULL_MESSAGE) == 2)
            assert broker.offset == 50

    async def test_tags_that_only_share_a_hash_are_told_apart_here(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"no", tags=b"BB")  # "Aa" and "BB" have one hash in Java
            broker.add_messages(b"yes", tags=b"Aa")
            inbox = Inbox()
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)
            consumer.subscribe("T", "Aa", inbox)
            async with consumer:
                await until(lambda: inbox.messages)
            assert inbox.bodies == [b"yes"]
            assert broker.offset == 2

    async def test_a_slave_is_read_where_the_broker_says_so_and_gets_no_offsets(self) -> None:
        async with open_scripted(brokers=["master", "slave"]) as scripted:
            master, slave = scripted.brokers["master"], scripted.brokers["slave"]
            addresses = {0: master.address, 1: slave.address}
            scripted.name_servers[0].routes["T"] = TopicRoute(
                broker_datas=[BrokerData(broker_addrs=addresses, broker_name="broker-a", cluster="C")],
                queue_datas=[QueueData(broker_name="broker-a", perm=6, read_queue_nums=1, write_queue_nums=1)],
            )
            master.offset = 7
            master.on(RequestCode.PULL_MESSAGE, lambda frame: frame.reply(20, ext=place(8, 8, broker_id=1)))
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)
            consumer.subscribe("T", "*", Inbox())
            async with consumer:
                await until(lambda: slave.count(RequestCode.PULL_MESSAGE))
            first, second = (
                master.frames(RequestCode.PULL_MESSAGE)[0].ext,
                slave.frames(RequestCode.PULL_MESSAGE)[0].ext,
            )
            assert first is not None
            assert second is not None
            assert (first["sysFlag"], first["commitOffset"]) == ("3", "7")
            assert second["sysFlag"] == "2"
            assert slave.count(RequestCode.HEART_BEAT)


class TestRetrying:
    @pytest.mark.parametrize("how", ["raise", "return"])
    async def test_a_message_that_fails_comes_again_and_is_logged_once(
        self, how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        seen: list[tuple[bytes, str, int]] = []
        async with open_cluster(tmp_path, settings=QUICK_RETRIES) as cluster:
            cluster.create_topic("T")
            consumer = PushConsumer("readers", namesrv=cluster.namesrv)

            @consumer.subscribe("T", "A || B")
            async def read(message: MessageView) -> ConsumeResult | None:
                seen.append((message.body, message.topic, message.reconsume_times))
                if message.body == b"bad" and message.reconsume_times < 2:
                    if how == "raise":
                        raise ValueError("cannot do that yet")
                    return ConsumeResult.RETRY
                return None

            async with consumer:
                await send_all(cluster, [b"good", b"bad"], tags="A")
                await until(lambda: (b"bad", "T", 2) in seen, seconds=15)
        assert sorted(seen) == [(b"bad", "T", 0), (b"bad", "T", 1), (b"bad", "T", 2), (b"good", "T", 0)]
        failures = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(failures) == (2 if how == "raise" else 0)
        assert "bad" not in caplog.text

    async def test_a_message_that_always_fails_ends_in_the_dead_letters(self, tmp_path: Path) -> None:
        seen: list[int] = []
        async with open_cluster(tmp_path, settings=QUICK_RETRIES) as cluster:
            cluster.create_topic("T")
            consumer = PushConsumer("readers", namesrv=cluster.namesrv, retry_count_max=1)

            @consumer.subscribe("T")
            async def read(message: MessageView) -> None:
                seen.append(message.reconsume_times)
                raise ValueError

            store = cluster.brokers["broker-a"].store
            async with consumer:
                await send_all(cluster, [b"bad"])
                await until(lambda: store.max_offset("%DLQ%readers", 0) == 1, seconds=15)
        assert seen == [0, 1]

    async def test_a_delay_level_of_minus_one_means_dead_letters_at_once(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> ConsumeResult:
            return ConsumeResult.retry(delay_level=-1)

        store = cluster.brokers["broker-a"].store
        async with consumer:
            await send_all(cluster, [b"bad"])
            await until(lambda: store.max_offset("%DLQ%readers", 0) == 1)

    async def test_of_a_list_only_the_rest_comes_again(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"0", b"1", b"2", b"3")
            broker.on(RequestCode.CONSUMER_SEND_MSG_BACK, lambda frame: frame.reply())
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)

            @consumer.subscribe("T", batch=4)
            async def read(messages: list[MessageView]) -> ConsumeResult:
                return ConsumeResult.consumed(2)

            async with consumer:
                await until(lambda: broker.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 2)
            back = [frame.ext for frame in broker.received if frame.code == RequestCode.CONSUMER_SEND_MSG_BACK]
            assert [ext["offset"] for ext in back if ext] == ["2000", "3000"]
            assert back[0] == {
                "offset": "2000", "group": "readers", "delayLevel": "0", "originMsgId": "id-2", "originTopic": "T",
                "unitMode": "false", "maxReconsumeTimes": "16", "bname": "broker-a",
            }  # fmt: skip
            assert broker.offset == 4

    async def test_a_message_that_cannot_be_handed_back_is_sent_to_the_retry_topic(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            scripted.add_topic("%RETRY%readers")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"bad")
            broker.on(RequestCode.CONSUMER_SEND_MSG_BACK, refuse(1))
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)

            @consumer.subscribe("T")
            async def read(message: MessageView) -> None:
                raise ValueError

            async with consumer:
                await until(lambda: broker.count(RequestCode.SEND_MESSAGE_V2))
            copy = next(frame for frame in broker.received if frame.code == RequestCode.SEND_MESSAGE_V2)
            assert copy.ext is not None
            properties = dict(pair.split("\x01") for pair in (copy.ext["i"] or "").split("\x02"))
            assert (copy.ext["a"], copy.ext["b"]) == ("CLIENT_INNER_PRODUCER", "%RETRY%readers")
            assert (copy.ext["j"], copy.ext["l"]) == ("1", "17")  # what brokers compare with the next attempt
            assert properties["RETRY_TOPIC"] == "T"
            assert properties["DELAY"] == "3"
            assert properties["UNIQ_KEY"] == "id-0"
            assert copy.body == b"bad"

    async def test_a_message_that_nobody_takes_is_tried_again_here(self) -> None:
        clock = ManualClock()
        seen: list[int] = []
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"bad", b"good")
            broker.on(RequestCode.CONSUMER_SEND_MSG_BACK, refuse(1))
            consumer = PushConsumer("readers", namesrv=scripted.namesrv, clock=clock)

            @consumer.subscribe("T")
            async def read(message: MessageView) -> None:
                if message.body == b"bad":
                    seen.append(message.reconsume_times)
                    if len(seen) < 2:
                        raise ValueError

            async with consumer:
                await until(lambda: broker.count(RequestCode.CONSUMER_SEND_MSG_BACK))
                for _ in range(20):
                    await clock.advance(0.2)
                    await asyncio.sleep(0.005)
                assert seen == [0]
                await clock.advance(1.5)
                await until(lambda: len(seen) == 2)
            assert seen == [0, 1]
            assert broker.offset == 2

    @pytest.mark.parametrize("ends", ["well", "badly"])
    async def test_a_message_that_a_handler_keeps_too_long_is_handed_back_once(self, ends: str) -> None:
        clock = ManualClock()
        released = asyncio.Event()
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"slow", b"quick")
            broker.on(RequestCode.CONSUMER_SEND_MSG_BACK, lambda frame: frame.reply())
            inbox = Inbox()
            consumer = PushConsumer("readers", namesrv=scripted.namesrv, clock=clock, consume_timeout_s=60)

            @consumer.subscribe("T")
            async def read(message: MessageView) -> None:
                await inbox(message)
                if message.body == b"slow":
                    await released.wait()
                    if ends == "badly":
                        raise ValueError("too late")

            async with consumer:
                await until(lambda: len(inbox.messages) == 2)
                await clock.advance(61)
                assert not broker.count(RequestCode.CONSUMER_SEND_MSG_BACK)
                await clock.advance(60)
                await until(lambda: broker.count(RequestCode.CONSUMER_SEND_MSG_BACK))
                back = next(frame for frame in broker.received if frame.code == RequestCode.CONSUMER_SEND_MSG_BACK)
                assert back.ext is not None
                assert back.ext["delayLevel"] == "3"
                released.set()
            assert broker.offset == 2
            assert broker.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 1


class TestFlowControl:
    async def test_no_more_is_fetched_than_may_be_cached(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        released = asyncio.Event()
        done = 0
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, cache_count_max=50)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            nonlocal done
            await released.wait()
            done += 1

        await send_all(cluster, numbered(300))
        async with consumer:
            member = consumer._started()
            await until(lambda: member.held and any(held.cache.count > 50 for held in member.held.values()))
            await asyncio.sleep(0.3)
            assert max(held.cache.count for held in member.held.values()) <= 50 + 32
            released.set()
            await until(lambda: done == 300)

    async def test_a_paused_consumer_fetches_nothing_until_it_goes_on(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inbox)
        async with consumer:
            await until(lambda: consumer.queues)
            await send_all(cluster, [b"1"])
            await until(lambda: len(inbox.messages) == 1)
            consumer.pause()
            await send_all(cluster, [b"2"])  # the pull that waits at the broker still brings this one
            await until(lambda: len(inbox.messages) == 2)
            await send_all(cluster, [b"3"])
            await asyncio.sleep(0.2)
            assert len(inbox.messages) == 2
            consumer.resume()
            await until(lambda: len(inbox.messages) == 3)

    async def test_a_paused_consumer_gives_up_what_goes_to_a_new_member(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        inboxes = [Inbox(), Inbox()]
        first, second = (PushConsumer("readers", namesrv=cluster.namesrv) for _ in range(2))
        for consumer, inbox in zip((first, second), inboxes, strict=True):
            consumer.subscribe("T", "*", inbox)
        async with first:
            await until(lambda: len([queue for queue in first.queues if queue.topic == "T"]) == 2)
            first.pause()
            async with second:
                await until(lambda: [queue for queue in second.queues if queue.topic == "T"])
                await until(lambda: len([queue for queue in first.queues if queue.topic == "T"]) == 1)
                assert not set(first.queues) & {queue for queue in second.queues if queue.topic == "T"}


class TestStopping:
    async def test_a_handler_may_close_its_own_consumer(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            await asyncio.wait_for(consumer.close(), 5)

        await send_all(cluster, [b"x"])
        async with consumer:
            async with asyncio.timeout(5):
                await consumer.run()
            assert "readers" not in cluster.brokers["broker-a"].tables.consumers.groups()
        assert cluster.stored_offset("readers", "T", 0) == 1

    async def test_a_handler_may_ask_for_the_end(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        seen: list[bytes] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            seen.append(message.body)
            if len(seen) == 2:
                consumer.stop()
                with pytest.raises(ClientError, match="is being closed"):
                    await consumer.start()

        await send_all(cluster, numbered(10))
        await consumer.start()
        async with asyncio.timeout(5):
            await consumer.run()
        assert cluster.stored_offset("readers", "T", 0) == len(seen) == 2
        await consumer.close()
        with pytest.raises(ClientError, match="not started"):
            consumer.stop()

    async def test_closing_a_consumer_that_starts_ends_both(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", Inbox())
        for turns in range(0, 40, 3):
            starting = asyncio.create_task(consumer.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            await consumer.close()
            if not turns:
                await starting  # it had not begun
                await consumer.close()
                continue
            with pytest.raises(ClientError, match="closed while it was being started"):
                await starting
        assert "readers" not in cluster.brokers["broker-a"].tables.consumers.groups()

    async def test_what_is_being_handled_is_finished_and_its_offset_stored(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        entered, released = asyncio.Event(), asyncio.Event()
        finished: list[bytes] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, concurrency=1)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            entered.set()
            await released.wait()
            finished.append(message.body)

        await send_all(cluster, numbered(10))
        await consumer.start()
        await entered.wait()
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        released.set()
        await closing
        assert len(finished) == 1
        assert cluster.stored_offset("readers", "T", 0) == 1

    async def test_a_handler_that_does_not_end_is_cancelled_after_the_grace(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        cancelled = asyncio.Event()
        entered = asyncio.Event()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, stop_grace_s=0.1)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async with consumer:
            await send_all(cluster, [b"x"])
            await entered.wait()
        assert cancelled.is_set()
        assert not cluster.stored_offset("readers", "T", 0)

    async def test_run_returns_when_the_consumer_is_closed(self, cluster: Cluster) -> None:
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", Inbox())
        await consumer.start()
        running = asyncio.create_task(consumer.run())
        await asyncio.sleep(0)
        await consumer.close()
        await running
        await consumer.close()

    async def test_cancelling_what_runs_a_consumer_closes_it_completely(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inbox)

        async def serve() -> None:
            async with consumer:
                await consumer.run()

        await send_all(cluster, [b"x"])
        serving = asyncio.create_task(serve())
        await until(lambda: inbox.messages)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert "readers" not in cluster.brokers["broker-a"].tables.consumers.groups()


class TestFilters:
    async def test_a_broker_that_is_away_is_not_asked_whether_an_expression_is_right(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")
            scripted.brokers["broker-a"].on(RequestCode.CHECK_CLIENT_CONFIG, lambda frame: frame.reply())
            await scripted.brokers["broker-b"].server.close()
            for number in range(6):
                consumer = PushConsumer(f"readers-{number}", namesrv=scripted.namesrv)
                consumer.subscribe("T", MessageSelector.by_sql("a > 1"), Inbox())
                async with consumer:
                    pass
            assert scripted.brokers["broker-a"].count(RequestCode.CHECK_CLIENT_CONFIG) == 6


class TestWorkers:
    @pytest.mark.parametrize("orderly", [False, True])
    async def test_a_handler_whose_task_is_cancelled_costs_no_worker(self, tmp_path: Path, orderly: bool) -> None:
        async with open_cluster(tmp_path, settings=QUICK_RETRIES) as cluster:
            cluster.create_topic("T", queues=1)
            inbox = Inbox()
            consumer = PushConsumer(
                "readers", namesrv=cluster.namesrv, concurrency=1, orderly=orderly, pause_s=0.01, consume_from="first"
            )

            @consumer.subscribe("T")
            async def read(message: MessageView) -> None:
                task = asyncio.current_task()
                assert task is not None
                if message.body == b"0" and message.reconsume_times == 0:
                    task.cancel()
                    await asyncio.sleep(1)
                await inbox(message)
                if message.body == b"2" and message.reconsume_times == 0:
                    task.cancel()  # takes effect at whatever is awaited next

            async with consumer:
                for body in numbered(4):
                    await send_all(cluster, [body])
                await until(lambda: set(inbox.bodies) == set(numbered(4)))
            if orderly:
                assert inbox.bodies in (numbered(4), [b"0", b"1", b"2", b"2", b"3"])
            assert cluster.stored_offset("readers", "T", 0) == 4

    async def test_a_fault_after_a_call_costs_no_worker_and_no_message(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(consume_concurrently, "KEPT_RETRY_S", 0.05)
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, concurrency=1)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> ConsumeResult:
            await inbox(message)
            return ConsumeResult.COMMIT

        async with consumer:
            handlers = consumer._started().handlers
            note = handlers.note
            calls: list[int] = []

            def note_badly(messages: list[MessageView], result: ConsumeResult, seconds: float) -> None:
                calls.append(1)
                if len(calls) == 1:
                    raise TypeError("a fault of ours")
                note(messages, result, seconds)

            monkeypatch.setattr(handlers, "note", note_badly)
            await send_all(cluster, numbered(2))
            await until(lambda: len(inbox.messages) == 3)
        assert cluster.stored_offset("readers", "T", 0) == 2

    async def test_the_loop_may_end_with_a_consumer_that_nobody_closed(self, tmp_path: Path) -> None:
        async def leave_it_running() -> None:
            async with open_cluster(tmp_path) as cluster:
                cluster.create_topic("T", queues=1)
                entered = asyncio.Event()
                consumer = PushConsumer("readers", namesrv=cluster.namesrv)

                @consumer.subscribe("T")
                async def read(message: MessageView) -> None:
                    entered.set()
                    await asyncio.Event().wait()

                await send_all(cluster, [b"x"])
                await consumer.start()
                await entered.wait()

        await asyncio.wait_for(asyncio.to_thread(asyncio.run, leave_it_running()), 10)


class TestTrouble:
    async def test_consuming_goes_on_after_the_broker_was_restarted(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inbox)
        async with consumer:
            await send_all(cluster, [b"1"])
            await until(lambda: b"1" in inbox.bodies)
            await cluster.stop_broker("broker-a")
            await asyncio.sleep(0.2)
            await cluster.start_broker("broker-a")
            await send_all(cluster, [b"2"])
            await until(lambda: b"2" in inbox.bodies, seconds=15)

    async def test_consuming_goes_on_after_every_connection_was_cut(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        link = FaultyLink()
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, link=link)
        consumer.subscribe("T", "*", inbox)
        async with consumer:
            await until(lambda: consumer.queues)
            for number in range(3):
                link.cut()
                await send_all(cluster, [b"%d" % number])
                await until(lambda: len(set(inbox.bodies)) == number + 1)  # noqa: B023

    async def test_a_consumer_that_starts_before_its_cluster_begins_when_that_is_there(self, tmp_path: Path) -> None:
        inbox = Inbox()
        async with open_cluster(tmp_path, broker_count=0) as cluster:
            consumer = PushConsumer("readers", namesrv=cluster.namesrv)
            consumer.subscribe("T", "*", inbox)
            async with consumer:
                await cluster.start_broker("broker-a")
                cluster.create_topic("T")
                await send_all(cluster, [b"x"])
                await until(lambda: inbox.messages)

    async def test_a_broker_that_does_not_list_this_member_does_not_cost_it_its_queues(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)
            consumer.subscribe("T", "*", Inbox())
            async with consumer:
                await until(lambda: consumer.queues)
                broker.on(RequestCode.HEART_BEAT, lambda frame: frame.reply())
                broker.client_ids[:] = ["somebody else"]
                asked = broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
                heard = broker.count(RequestCode.HEART_BEAT)
                consumer.members_changed()
                await until(lambda: broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) > asked)
                await until(lambda: broker.count(RequestCode.HEART_BEAT) > heard)
                assert len(consumer.queues) == 1

    async def test_a_broker_that_does_not_know_the_subscription_is_told_at_once(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            heard: list[int] = []

            async def pull(frame: Frame) -> Frame | None:
                await asyncio.sleep(0.05)  # until the heartbeats of the start are through
                heard.append(broker.count(RequestCode.HEART_BEAT))
                return frame.reply(24, remark="no such subscription")

            broker.on(RequestCode.PULL_MESSAGE, pull)
            consumer = PushConsumer("readers", namesrv=scripted.namesrv, clock=ManualClock())
            consumer.subscribe("T", "*", Inbox())
            async with consumer:
                await until(lambda: heard and broker.count(RequestCode.HEART_BEAT) > heard[0])

    async def test_what_is_handled_of_a_queue_that_was_lost_no_longer_counts(self) -> None:
        entered, released = asyncio.Event(), asyncio.Event()
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.add_messages(b"x")
            broker.on(RequestCode.CONSUMER_SEND_MSG_BACK, lambda frame: frame.reply())
            consumer = PushConsumer("readers", namesrv=scripted.namesrv)

            @consumer.subscribe("T")
            async def read(message: MessageView) -> None:
                entered.set()
                await released.wait()
                raise ValueError

            async with consumer:
                await entered.wait()
                await consumer._started().give_up(consumer.queues[0])
                released.set()
            assert not broker.count(RequestCode.CONSUMER_SEND_MSG_BACK)
            assert broker.offset == 0


class TestArguments:
    @pytest.mark.parametrize(
        "arguments",
        [
            {"concurrency": 0},
            {"pull_batch_size": 1025},
            {"cache_count_max": 0},
            {"consume_from": "middle"},
            {"instance_name": "a@b"},
            {"heartbeat_interval_s": 0},
        ],
    )
    def test_what_cannot_work_is_refused(self, arguments: dict[str, object]) -> None:
        with pytest.raises(IllegalArgument):
            PushConsumer("readers", namesrv="127.0.0.1:1", **arguments)  # type: ignore[arg-type]

    def test_a_group_whose_retry_topic_has_no_legal_name_is_refused(self) -> None:
        with pytest.raises(IllegalArgument, match="128 characters"):
            PushConsumer("g" * 121, namesrv="127.0.0.1:1")

    async def test_a_consumer_without_subscription_does_not_start(self) -> None:
        with pytest.raises(IllegalArgument, match="subscribes to nothing"):
            await PushConsumer("readers", namesrv="127.0.0.1:1").start()

    async def test_what_needs_a_running_consumer_says_so(self) -> None:
        with pytest.raises(ClientError, match="not started"):
            await PushConsumer("readers", namesrv="127.0.0.1:1").run()


class TestOptions:
    @pytest.mark.parametrize(("orderly", "retries"), [(False, 16), (True, 2**31 - 1)])
    def test_minus_one_attempts_mean_the_familys_default(self, orderly: bool, retries: int) -> None:
        assert PushOptions(orderly=orderly, retry_count_max=-1).retries == retries
        assert PushOptions(orderly=orderly, retry_count_max=0).retries == 0

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("retry_count_max", -2),
            ("consume_timeout_s", 0),
            ("pause_s", -1),
            ("stop_grace_s", -0.1),
            ("stop_grace_s", float("nan")),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, name: str, value: float) -> None:
        with pytest.raises(IllegalArgument, match=name):
            PushOptions(**{name: value})  # type: ignore[arg-type]
