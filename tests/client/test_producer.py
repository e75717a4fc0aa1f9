from __future__ import annotations

import asyncio
import zlib
from itertools import pairwise

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.selectors import select_by_hash
from skyrocketmq.client.send_result import SendStatus
from skyrocketmq.client.settings import Credentials
from skyrocketmq.errors import (
    ClientError,
    ConnectFailed,
    IllegalArgument,
    MessageIllegal,
    NetError,
    NoRoute,
    RequestTimeout,
    SystemBusy,
    TopicNotExist,
)
from skyrocketmq.model import Message, MessageQueue
from skyrocketmq.testing import FaultyLink, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.signing import is_signed_by
from tests.client.cluster import Cluster, until
from tests.client.scripted import ScriptedBroker, open_scripted, refuse, stored

SEND = RequestCode.SEND_MESSAGE_V2


def sent(broker: ScriptedBroker) -> list[Frame]:
    return [frame for frame in broker.received if frame.code in (SEND, RequestCode.SEND_BATCH_MESSAGE)]


class TestOnACluster:
    async def test_a_message_to_a_new_topic_creates_it_and_is_stored(self, cluster: Cluster) -> None:
        async with Producer("orders", namesrv=cluster.namesrv) as producer:
            result = await producer.send(Message("TopicTest", b"hello", tags="TagA", keys=["order-1"]))
        assert result.status is SendStatus.SEND_OK
        assert (result.queue.topic, result.queue.broker_name) == ("TopicTest", "broker-a")
        assert result.queue_offset == 0
        assert len(result.msg_id) == len(result.offset_msg_id) == 32
        topic = cluster.brokers["broker-a"].tables.topics.find("TopicTest")
        assert topic is not None
        assert topic.write_queue_nums == 4

    async def test_queues_take_turns_over_all_brokers(self, two_brokers: Cluster) -> None:
        two_brokers.create_topic("T", queues=2)
        async with Producer("orders", namesrv=two_brokers.namesrv) as producer:
            await until(lambda: two_brokers.name_server)
            results = [await producer.send(Message("T", b"x")) for _ in range(8)]
        queues = [result.queue for result in results]
        assert len(set(queues[:4])) == 4
        assert queues[:4] == queues[4:]

    async def test_a_thousand_sends_are_under_way_at_once(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with Producer("orders", namesrv=cluster.namesrv) as producer:
            results = await asyncio.gather(*(producer.send(Message("T", b"%d" % n)) for n in range(1500)))
        places = {(result.queue.queue_id, result.queue_offset) for result in results}
        assert len(places) == 1500
        assert len({result.msg_id for result in results}) == 1500

    async def test_messages_with_equal_arguments_go_to_one_queue(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with Producer("orders", namesrv=cluster.namesrv) as producer:
            results = [await producer.send(Message("T", b"x"), selector=select_by_hash, arg="7") for _ in range(3)]
        assert {result.queue.queue_id for result in results} == {ord("7") % 4}
        assert [result.queue_offset for result in results] == [0, 1, 2]

    async def test_a_batch_lies_together_in_one_queue(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with Producer("orders", namesrv=cluster.namesrv) as producer:
            result = await producer.send_batch(Message("T", b"%d" % n) for n in range(10))
            following = await producer.send(Message("T", b"x"), queue=result.queue)
        assert len(result.msg_id.split(",")) == len(result.offset_msg_id.split(",")) == 10
        assert (result.queue_offset, following.queue_offset) == (0, 10)

    async def test_a_oneway_message_arrives(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with Producer("orders", namesrv=cluster.namesrv) as producer:
            await producer.send_oneway(Message("T", b"x"))
            await until(lambda: cluster.brokers["broker-a"].store.max_offset("T", 0) == 1)

    async def test_a_producer_is_known_to_the_broker_while_it_lives(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        producers = cluster.brokers["broker-a"].tables.producers
        async with Producer("orders", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("T", b"x"))
            await until(lambda: "orders" in producers.groups())
        assert "orders" not in producers.groups()

    async def test_sending_goes_on_after_the_broker_was_restarted(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with Producer("orders", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("T", b"1"))
            await cluster.stop_broker("broker-a")
            with pytest.raises(ConnectFailed):
                await producer.send(Message("T", b"lost"))
            await cluster.start_broker("broker-a")
            for _ in range(100):
                try:
                    result = await producer.send(Message("T", b"2"))
                    break
                except ConnectFailed:
                    await asyncio.sleep(0.05)
            assert result.queue_offset == 1

    async def test_the_other_broker_is_used_while_one_is_down(self, two_brokers: Cluster) -> None:
        two_brokers.create_topic("T", queues=2)
        async with Producer("orders", namesrv=two_brokers.namesrv) as producer:
            await producer.send(Message("T", b"x"))
            await until(lambda: len(producer._instance.routes.writable("T")) == 4)  # type: ignore[union-attr]
            await two_brokers.stop_broker("broker-b")
            results = [await producer.send(Message("T", b"x")) for _ in range(6)]
        assert {result.queue.broker_name for result in results} == {"broker-a"}


class TestRetries:
    async def test_a_refusal_that_another_broker_may_not_have_is_tried_there(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")
            scripted.brokers["broker-a"].on(SEND, refuse(14, "disk full"))
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                results = [await producer.send(Message("T", b"x")) for _ in range(4)]
            assert {result.queue.broker_name for result in results} == {"broker-b"}
            assert 1 <= len(sent(scripted.brokers["broker-a"])) <= 4

    async def test_a_broker_that_refuses_connections_for_a_moment_gets_the_message(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        link = FaultyLink()
        async with Producer("orders", namesrv=cluster.namesrv, link=link) as producer:
            await producer.send(Message("T", b"first"))
            link.is_refusing = True
            link.cut()
            sending = asyncio.ensure_future(producer.send(Message("T", b"second"), timeout_s=10))
            await asyncio.sleep(0.3)
            assert not sending.done(), "three attempts in a few milliseconds would be none"
            link.is_refusing = False
            assert (await sending).is_ok

    async def test_without_retries_a_refused_connection_is_told_at_once(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=2)
        link = FaultyLink()
        async with Producer("orders", namesrv=cluster.namesrv, link=link, retry_count_max=0) as producer:
            await producer.send(Message("T", b"first"))
            link.is_refusing = True
            link.cut()
            with pytest.raises(NetError):
                await producer.send(Message("T", b"second"), timeout_s=60)

    async def test_a_retry_avoids_the_broker_that_failed(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T", queues=5)
            scripted.brokers["broker-a"].on(SEND, refuse(1))
            async with Producer("orders", namesrv=scripted.namesrv, retry_count_max=1) as producer:
                for _ in range(20):
                    await producer.send(Message("T", b"x"))

    async def test_a_message_keeps_its_id_over_all_attempts(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.on(SEND, refuse(1, "no"))
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                with pytest.raises(Exception, match="code 1"):
                    await producer.send(Message("T", b"x"))
            texts = {frame.ext["i"] for frame in sent(broker) if frame.ext}
            assert len(sent(broker)) == 3
            assert len(texts) == 1

    async def test_a_refusal_for_good_is_raised_at_once(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.on(SEND, refuse(13, "too long"))
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                with pytest.raises(MessageIllegal, match="too long"):
                    await producer.send(Message("T", b"x"))
            assert len(sent(broker)) == 1

    async def test_the_last_of_several_refusals_is_raised_with_what_was_tried(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")
            for broker in scripted.brokers.values():
                broker.on(SEND, refuse(17, "unknown here"))
            async with Producer("orders", namesrv=scripted.namesrv, retry_count_max=1) as producer:
                with pytest.raises(TopicNotExist) as caught:
                    await producer.send(Message("T", b"x"))
            notes = " ".join(caught.value.__notes__)
            assert "2 attempt" in notes
            assert "broker-a" in notes
            assert "broker-b" in notes

    async def test_a_busy_broker_is_tried_again_after_a_while_until_it_takes_the_message(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            came_s: list[float] = []

            def busy_five_times(frame: Frame) -> Frame:
                came_s.append(asyncio.get_running_loop().time())
                return stored(frame) if len(sent(broker)) > 5 else frame.reply(2, remark="[OVERLOAD]")

            broker.on(SEND, busy_five_times)
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                result = await producer.send(Message("T", b"x"))
            assert result.is_ok
            assert len(sent(broker)) == 6
            waits_s = [later - earlier for earlier, later in pairwise(came_s)]
            # Each wait is twice the one before, of which chance may take up to half.
            assert all(wait_s > 0.004 * 2**number for number, wait_s in enumerate(waits_s)), waits_s

    async def test_a_broker_that_stays_busy_ends_the_send_with_its_time(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            scripted.brokers["broker-a"].on(SEND, refuse(2, "[OVERLOAD]"))
            async with Producer("orders", namesrv=scripted.namesrv, send_timeout_s=0.3) as producer:
                with pytest.raises(SystemBusy):
                    await producer.send(Message("T", b"x"))

    async def test_a_named_queue_gets_one_attempt(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")
            scripted.brokers["broker-a"].on(SEND, refuse(14))
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                with pytest.raises(Exception, match="code 14"):
                    await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 0))
            assert len(sent(scripted.brokers["broker-a"])) == 1
            assert not sent(scripted.brokers["broker-b"])

    async def test_no_answer_is_a_timeout_that_uses_up_the_time_of_all_attempts(self) -> None:
        clock = ManualClock()
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            broker.on(SEND, lambda frame: None)
            async with Producer("orders", namesrv=scripted.namesrv, clock=clock) as producer:
                sending = asyncio.create_task(producer.send(Message("T", b"x")))
                await until(lambda: sent(broker))
                await clock.advance(2.9)
                assert not sending.done()
                await clock.advance(0.2)
                with pytest.raises(RequestTimeout, match="within 3 s"):
                    await sending
            assert len(sent(broker)) == 1

    async def test_stored_but_not_flushed_is_a_result_and_no_retry(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")

            def unflushed(frame: Frame) -> Frame:
                answer = stored(frame)
                answer.code = 10
                return answer

            for broker in scripted.brokers.values():
                broker.on(SEND, unflushed)
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                result = await producer.send(Message("T", b"x"))
                assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
            assert sum(len(sent(broker)) for broker in scripted.brokers.values()) == 1
            async with Producer("orders", namesrv=scripted.namesrv, retry_unsafe=True) as producer:
                result = await producer.send(Message("T", b"x"))
                assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
            assert sum(len(sent(broker)) for broker in scripted.brokers.values()) == 1 + 3

    async def test_slow_brokers_are_passed_over_when_that_is_wanted(self) -> None:
        clock = ManualClock()
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T", queues=2)
            slow = scripted.brokers["broker-a"]

            async def after_a_second(frame: Frame) -> Frame:
                await clock.sleep(1)
                return stored(frame)

            slow.on(SEND, after_a_second)
            async with Producer("orders", namesrv=scripted.namesrv, clock=clock, avoid_slow_brokers=True) as producer:
                while not sent(slow):
                    sending = asyncio.create_task(producer.send(Message("T", b"x")))
                    await until(lambda: sending.done() or sent(slow))  # noqa: B023
                await clock.advance(1)
                await sending
                results = [await producer.send(Message("T", b"x")) for _ in range(6)]
                assert {result.queue.broker_name for result in results} == {"broker-b"}
                await clock.advance(61)
                await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-b", 0))
                sendings = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(4)]
                await until(lambda: len(sent(slow)) > 1)
                await clock.advance(1)
                await asyncio.gather(*sendings)

    async def test_a_broker_that_refuses_is_avoided_too(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T", queues=4)
            refusing, slow = scripted.brokers.values()
            refusing.on(SEND, refuse(14, "disk is full"))
            clock = ManualClock()

            async def after_a_second(frame: Frame) -> Frame:
                clock_task = asyncio.get_running_loop().create_task(clock.advance(1))
                await clock.sleep(1)
                await clock_task
                return stored(frame)

            slow.on(SEND, after_a_second)
            async with Producer("orders", namesrv=scripted.namesrv, clock=clock, avoid_slow_brokers=True) as producer:
                for _ in range(12):
                    result = await producer.send(Message("T", b"x"))
                    assert result.queue.broker_name == "broker-b"
            assert len(sent(refusing)) == 1

    async def test_a_message_that_is_refused_for_its_own_sake_says_nothing_about_the_broker(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")
            async with Producer("orders", namesrv=scripted.namesrv, avoid_slow_brokers=True) as producer:
                for broker in scripted.brokers.values():
                    broker.on(SEND, refuse(13, "too long"))
                for _ in range(2):
                    with pytest.raises(MessageIllegal):
                        await producer.send(Message("T", b"x"))
                for broker in scripted.brokers.values():
                    broker.on(SEND, stored)
                brokers = [(await producer.send(Message("T", b"x"))).queue.broker_name for _ in range(4)]
                assert set(brokers) == {"broker-a", "broker-b"}

    async def test_a_send_that_is_cancelled_says_nothing_about_the_broker(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted:
            scripted.add_topic("T")

            async def hold(frame: Frame) -> Frame:
                await asyncio.sleep(0.2)
                return stored(frame)

            async with Producer("orders", namesrv=scripted.namesrv, avoid_slow_brokers=True) as producer:
                await producer.send(Message("T", b"x"))
                for broker in scripted.brokers.values():
                    broker.on(SEND, hold)
                before = sum(len(sent(broker)) for broker in scripted.brokers.values())
                sendings = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(4)]
                await until(lambda: sum(len(sent(broker)) for broker in scripted.brokers.values()) == before + 4)
                for sending in sendings:
                    sending.cancel()
                await asyncio.gather(*sendings, return_exceptions=True)
                for broker in scripted.brokers.values():
                    broker.on(SEND, stored)
                brokers = [(await producer.send(Message("T", b"x"))).queue.broker_name for _ in range(4)]
                assert set(brokers) == {"broker-a", "broker-b"}

    async def test_a_hasty_send_does_not_cost_others_their_connection(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            broker = scripted.brokers["broker-a"]
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                await producer.send(Message("T", b"x"))

                async def hold(frame: Frame) -> Frame:
                    await asyncio.sleep(0.3)
                    return stored(frame)

                broker.on(SEND, hold)
                before = len(sent(broker))
                patient = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(10)]
                with pytest.raises(NetError):
                    await producer.send(Message("T", b"hasty"), timeout_s=0.05)
                await asyncio.gather(*patient)
                assert len(sent(broker)) == before + 11


class TestWhatTravels:
    async def test_the_header_is_the_familys(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                result = await producer.send(
                    Message("T", b"hello", tags="A", keys="k1 k2", properties={"colour": "blue"}, flag=3, delay_level=2)
                )
            (frame,) = sent(scripted.brokers["broker-a"])
            assert frame.ext is not None
            born_ms = int(frame.ext.pop("g") or 0)
            properties = dict(pair.split("\x01") for pair in (frame.ext.pop("i") or "").split("\x02"))
            assert born_ms > 1_600_000_000_000
            assert frame.body == b"hello"
            assert frame.ext == {
                "a": "orders", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "3",
                "j": "0", "k": "false", "m": "false", "n": "broker-a",
            }  # fmt: skip
            assert properties == {
                "UNIQ_KEY": result.msg_id,
                "TAGS": "A",
                "KEYS": "k1 k2",
                "WAIT": "true",
                "DELAY": "2",
                "colour": "blue",
            }

    @pytest.mark.parametrize("size", [5_000, 500_000])
    async def test_large_bodies_are_compressed(self, size: int) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                await producer.send(Message("T", b"x" * 4095))
                await producer.send(Message("T", b"x" * size))
            small, large = sent(scripted.brokers["broker-a"])
            assert small.ext is not None
            assert large.ext is not None
            assert (small.ext["f"], len(small.body)) == ("0", 4095)
            assert large.ext["f"] == str(0x301)
            assert zlib.decompress(large.body) == b"x" * size

    async def test_names_carry_the_namespace_on_the_wire_only(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("ns%T")
            async with Producer("orders", namesrv=scripted.namesrv, namespace="ns") as producer:
                result = await producer.send(Message("T", b"x"))
                assert [queue.topic for queue in await producer.queues("T")] == ["T"]
            (frame,) = sent(scripted.brokers["broker-a"])
            assert result.queue.topic == "T"
            assert frame.ext is not None
            assert (frame.ext["a"], frame.ext["b"]) == ("ns%orders", "ns%T")
            assert "INSTANCE_ID\x01ns" in (frame.ext["i"] or "")

    async def test_requests_are_signed_and_binary_where_that_is_wanted(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            credentials = Credentials("rocketmq2", "12345678")
            async with Producer(
                "orders", namesrv=scripted.namesrv, credentials=credentials, binary_headers=True
            ) as producer:
                await producer.send(Message("T", b"x"))
            for frame in scripted.brokers["broker-a"].received:
                assert frame.encoding is Encoding.BINARY
                assert is_signed_by(frame.ext, frame.body, secret_key="12345678")

    async def test_a_connection_begins_with_a_heartbeat(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                await producer.send(Message("T", b"x"))
            codes = [frame.code for frame in scripted.brokers["broker-a"].received]
            assert codes[0] == RequestCode.HEART_BEAT
            assert codes[-1] == RequestCode.UNREGISTER_CLIENT


class TestWhatIsRefused:
    async def test_a_topic_that_nobody_knows_is_an_error_that_names_who_was_asked(self) -> None:
        async with open_scripted(name_server_count=2) as scripted:
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                with pytest.raises(NoRoute) as caught:
                    await producer.send(Message("T", b"x"))
            text = str(caught.value)
            assert "no route for topic T: asked name servers" in text
            assert all(server.address in text for server in scripted.name_servers)
            assert "neither knows it" in text
            assert "autoCreateTopicEnable" in text

    async def test_a_topic_that_cannot_be_written_is_an_error(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T", perm=4)
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                with pytest.raises(NoRoute, match="no queue of topic T can be written"):
                    await producer.send(Message("T", b"x"))

    async def test_a_topic_whose_template_cannot_be_written_is_an_error(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("TBW102", queues=8, perm=4)
            async with Producer("senders", namesrv=scripted.namesrv) as producer:
                with pytest.raises(NoRoute, match="template TBW102"):
                    await producer.send(Message("New", b"x"))

    async def test_a_body_over_the_limit_is_not_sent(self) -> None:
        async with Producer("orders", namesrv="127.0.0.1:1", message_bytes_max=10) as producer:
            with pytest.raises(IllegalArgument, match="11 bytes, the limit is 10"):
                await producer.send(Message("T", b"x" * 11))
            with pytest.raises(IllegalArgument, match="send it in parts"):
                await producer.send_batch([Message("T", b"x")])

    @pytest.mark.parametrize(
        ("messages", "reason"),
        [
            ([], "empty"),
            ([Message("T", b"x"), Message("U", b"x")], "one topic"),
            ([Message("T", b"x", delay_level=1)], "delayed"),
            ([Message("T", b"x"), Message("T", b"x", wait_for_store=False)], "wait_for_store"),
            ([Message("%RETRY%g", b"x")], "retry topic"),
        ],
    )
    async def test_messages_that_do_not_go_together_are_no_batch(self, messages: list[Message], reason: str) -> None:
        async with Producer("orders", namesrv="127.0.0.1:1") as producer:
            with pytest.raises(IllegalArgument, match=reason):
                await producer.send_batch(messages)

    async def test_a_queue_of_another_topic_is_refused(self) -> None:
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            async with Producer("orders", namesrv=scripted.namesrv) as producer:
                with pytest.raises(IllegalArgument, match="not one of the message's topic"):
                    await producer.send(Message("T", b"x"), queue=MessageQueue("U", "broker-a", 0))
                with pytest.raises(IllegalArgument, match="selector returned"):
                    await producer.send(Message("T", b"x"), selector=lambda queues, message, arg: None)  # type: ignore[arg-type]

    async def test_a_producer_that_is_not_started_says_so(self) -> None:
        producer = Producer("orders", namesrv="127.0.0.1:1")
        with pytest.raises(ClientError, match="async with"):
            await producer.send(Message("T", b"x"))
        await producer.close()

    @pytest.mark.parametrize("group", ["", "DEFAULT_PRODUCER", "no blanks"])
    def test_a_group_needs_a_name_of_its_own(self, group: str) -> None:
        with pytest.raises(IllegalArgument):
            Producer(group, namesrv="127.0.0.1:1")
