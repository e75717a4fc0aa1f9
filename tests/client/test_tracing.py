"""Traces of producers and consumers, read back from their topic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from skyrocketmq import blocking
from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.client.sending import Sender
from skyrocketmq.client.tracing import RECORD_COUNT_MAX
from skyrocketmq.client.transaction_producer import TransactionProducer
from skyrocketmq.client.transactions import TransactionState
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message, MessageView
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.properties import decode_properties
from skyrocketmq.wire.trace import (
    ConsumeOutcome,
    EndTransaction,
    Pub,
    SubAfter,
    SubBefore,
    TraceMessageType,
    TraceRecord,
    decode_trace,
)
from tests.client.cluster import Cluster, open_cluster, until
from tests.client.scripted import ScriptedBroker, open_scripted, refuse
from tests.client.test_push_consumer import numbered, send_all

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
R = TypeVar("R")


class Traces:
    """What is in the trace topic, as a consumer reads it."""

    def __init__(self) -> None:
        self.messages: list[MessageView] = []

    def of(self, kind: type[R]) -> list[R]:
        records = [record for message in self.messages for record in decode_trace(message.body)]
        return [record for record in records if isinstance(record, kind)]

    @property
    def records(self) -> list[TraceRecord]:
        return [record for message in self.messages for record in decode_trace(message.body)]


@asynccontextmanager
async def reading(cluster: Cluster, *, topic: str = TRACE_TOPIC) -> AsyncIterator[Traces]:
    traces = Traces()
    cluster.create_topic(topic, queues=1)
    consumer = PushConsumer("trace-readers", namesrv=cluster.namesrv, consume_from="first")

    @consumer.subscribe(topic)
    async def read(message: MessageView) -> None:
        traces.messages.append(message)

    async with consumer:
        yield traces


class TestProducer:
    async def test_every_message_leaves_a_trace(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with reading(cluster) as traces:
            async with Producer("orders", namesrv=cluster.namesrv, trace=True) as producer:
                results = [
                    await producer.send(Message("T", b"12345", tags="A", keys=["k1", "k2"])),
                    await producer.send(Message("T", b"6", delay_level=1)),
                ]
            await until(lambda: len(traces.of(Pub)) == 2)
        plain, delayed = traces.of(Pub)
        assert (plain.msg_id, plain.offset_msg_id) == (results[0].msg_id, results[0].offset_msg_id)
        assert (plain.group, plain.topic, plain.tags, plain.keys) == ("orders", "T", "A", "k1 k2")
        assert (plain.region, plain.body_bytes, plain.is_success) == ("DefaultRegion", 5, True)
        assert plain.store_host == cluster.brokers["broker-a"].address
        assert plain.message_type == TraceMessageType.NORMAL
        assert (delayed.msg_id, delayed.message_type, delayed.tags) == (
            results[1].msg_id,
            TraceMessageType.DELAY,
            None,
        )
        assert 0 <= plain.cost_ms < 10_000
        [message] = traces.messages
        assert set(message.keys) == {results[0].msg_id, results[1].msg_id, "k1", "k2"}

    async def test_each_message_of_a_batch_is_found_by_its_own_id(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with reading(cluster) as traces:
            async with Producer("orders", namesrv=cluster.namesrv, trace=True) as producer:
                result = await producer.send_batch([Message("T", b"x" * n, keys=f"k{n}") for n in (1, 2, 3)])
            await until(lambda: len(traces.of(Pub)) == 3)
        pubs = traces.of(Pub)
        assert [pub.msg_id for pub in pubs] == result.msg_id.split(",")
        assert [pub.offset_msg_id for pub in pubs] == result.offset_msg_id.split(",")
        assert [(pub.body_bytes, pub.keys) for pub in pubs] == [(1, "k1"), (2, "k2"), (3, "k3")]
        assert set(result.msg_id.split(",")) < set(traces.messages[0].keys)

    async def test_a_topic_of_ones_own_takes_the_traces(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with reading(cluster, topic="MyTraces") as traces:
            async with Producer("orders", namesrv=cluster.namesrv, trace="MyTraces") as producer:
                await producer.send(Message("T", b"x"))
            await until(lambda: traces.messages)
        assert cluster.brokers["broker-a"].tables.topics.find(TRACE_TOPIC) is None

    async def test_traces_leave_while_the_producer_is_open(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with reading(cluster) as traces, Producer("orders", namesrv=cluster.namesrv, trace=True) as producer:
            await producer.send(Message("T", b"1"))
            await until(lambda: len(traces.of(Pub)) == 1)
            await producer.send(Message("T", b"2"))
            await until(lambda: len(traces.of(Pub)) == 2)

    async def test_thousands_of_messages_are_traced_in_a_few(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with reading(cluster) as traces:
            async with Producer("orders", namesrv=cluster.namesrv, trace=True) as producer:
                results = await asyncio.gather(*(producer.send(Message("T", b"%d" % n)) for n in range(3000)))
                tracer = producer.tracer
                assert tracer is not None
            await until(lambda: len(traces.of(Pub)) == 3000)
        assert {pub.msg_id for pub in traces.of(Pub)} == {result.msg_id for result in results}
        assert len(traces.messages) < 20
        assert tracer.dropped_count == 0
        for message in traces.messages:
            assert {pub.msg_id for pub in map(_pub, decode_trace(message.body))} == set(message.keys)

    async def test_traces_are_not_traced(self, cluster: Cluster) -> None:
        async with reading(cluster) as traces:
            async with Producer("orders", namesrv=cluster.namesrv, trace=True) as producer:
                await producer.send(Message(TRACE_TOPIC, b"by hand"))
                await producer.send(Message(f"{TRACE_TOPIC}_of_mine", b"by hand"))
                await producer.send(Message("T", b"x"))
            await until(lambda: traces.of(Pub))
        assert [pub.topic for pub in traces.of(Pub)] == ["T"]

    async def test_a_broker_can_say_that_it_wants_no_traces(self, tmp_path: Path) -> None:
        async with open_cluster(tmp_path, settings={"traceOn": "false"}) as cluster:
            cluster.create_topic("T")
            async with Producer("orders", namesrv=cluster.namesrv, trace=True) as producer:
                result = await producer.send(Message("T", b"x"))
            assert cluster.brokers["broker-a"].tables.topics.find(TRACE_TOPIC) is None
        assert not result.trace_on

    async def test_a_broker_can_have_the_topic_from_its_start(self, tmp_path: Path) -> None:
        settings = {"traceTopicEnable": "true", "autoCreateTopicEnable": "false"}
        async with open_cluster(tmp_path, settings=settings) as cluster:
            cluster.create_topic("T")
            broker = cluster.brokers["broker-a"]
            topic = broker.tables.topics.find(TRACE_TOPIC)
            async with Producer("orders", namesrv=cluster.namesrv, trace=True) as producer:
                await producer.send(Message("T", b"x"))
            assert topic is not None
            assert (topic.write_queue_nums, topic.perm) == (1, 6)
            assert broker.store.max_offset(TRACE_TOPIC, 0) == 1

    async def test_names_in_traces_have_no_namespace(self, cluster: Cluster) -> None:
        async with reading(cluster) as traces:
            async with Producer("orders", namesrv=cluster.namesrv, namespace="ns", trace=True) as producer:
                await producer.send(Message("T", b"x"))
            await until(lambda: traces.of(Pub))
        [pub] = traces.of(Pub)
        assert (pub.group, pub.topic) == ("orders", "T")

    async def test_the_end_of_a_transaction_is_traced(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        for broker in cluster.brokers.values():
            await broker.config.update({"transactionCheckInterval": "50", "transactionTimeOut": "0"})
        states = TransactionState
        async with (
            reading(cluster) as traces,
            TransactionProducer(
                "orders", check=lambda message: states.ROLLBACK, namesrv=cluster.namesrv, trace=True
            ) as producer,
        ):
            message = Message("T", b"x", keys="k1 k2")
            told = await producer.send_in_transaction(message, lambda *_: states.COMMIT)
            asked = await producer.send_in_transaction(message, lambda *_: states.UNKNOWN)
            await until(lambda: len(traces.of(EndTransaction)) >= 3)
        ends = {(end.msg_id, end.state, end.is_from_check) for end in traces.of(EndTransaction)}
        assert ends == {
            (told.transaction_id, "COMMIT_MESSAGE", False),
            (asked.transaction_id, "UNKNOW", False),
            (asked.transaction_id, "ROLLBACK_MESSAGE", True),
        }
        end = traces.of(EndTransaction)[0]
        assert (end.topic, end.group, end.region) == ("T", "orders", "DefaultRegion")
        assert (end.transaction_id, end.keys, end.tags) == (end.msg_id, "k1 k2", None)
        assert end.message_type == TraceMessageType.TRANSACTION_COMMIT
        assert end.store_host == next(iter(cluster.brokers.values())).address
        halves = [pub for pub in traces.of(Pub) if pub.message_type == TraceMessageType.TRANSACTION_HALF]
        assert {half.msg_id for half in halves} == {told.transaction_id, asked.transaction_id}

    async def test_a_producer_without_traces_has_nothing_of_them(self, cluster: Cluster) -> None:
        async with Producer("orders", namesrv=cluster.namesrv) as producer:
            assert producer.tracer is None
            assert type(producer._sender) is Sender

    @pytest.mark.parametrize("topic", ["", "no topic!", "SCHEDULE_TOPIC_XXXX"])
    def test_a_trace_topic_needs_a_name_that_can_be_sent_to(self, topic: str) -> None:
        with pytest.raises(IllegalArgument):
            Producer("orders", namesrv="127.0.0.1:1", trace=topic)


def _pub(record: TraceRecord) -> Pub:
    assert isinstance(record, Pub)
    return record


class TestNobodysWay:
    """A broker that takes the messages, and has its own mind about traces."""

    def only_traces(self, broker: ScriptedBroker) -> list[Any]:
        return [
            frame
            for frame in broker.frames(RequestCode.SEND_MESSAGE_V2)
            if frame.ext is not None and frame.ext["b"] == TRACE_TOPIC
        ]

    async def test_traces_that_are_refused_are_counted_and_the_messages_are_sent(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with open_scripted(brokers=["broker-a", "broker-t"]) as scripted:
            scripted.add_topic("T", brokers=["broker-a"])
            scripted.add_topic(TRACE_TOPIC, brokers=["broker-t"])
            scripted.brokers["broker-t"].on(RequestCode.SEND_MESSAGE_V2, refuse(13, "no traces here"))
            with caplog.at_level(logging.WARNING, "skyrocketmq.client.tracing"):
                async with Producer("orders", namesrv=scripted.namesrv, trace=True) as producer:
                    tracer = producer.tracer
                    assert tracer is not None
                    for number in range(3):
                        assert (await producer.send(Message("T", b"%d" % number))).is_ok
                        await until(lambda: tracer.dropped_count == number + 1)  # noqa: B023
        assert [record.message for record in caplog.records] == ["traces dropped"]

    async def test_a_broker_that_takes_no_traces_holds_up_nothing_and_their_number_is_limited(self) -> None:
        async with open_scripted(brokers=["broker-a", "broker-t"]) as scripted:
            scripted.add_topic("T", brokers=["broker-a"])
            scripted.add_topic(TRACE_TOPIC, brokers=["broker-t"])
            released = asyncio.Event()

            async def never(frame: Any) -> None:
                await released.wait()

            scripted.brokers["broker-t"].on(RequestCode.SEND_MESSAGE_V2, never)
            producer = Producer("orders", namesrv=scripted.namesrv, trace=True)
            async with producer:
                tracer = producer.tracer
                assert tracer is not None
                await producer.send(Message("T", b"first"))
                await until(lambda: self.only_traces(scripted.brokers["broker-t"]))
                batch = [Message("T", b"x")] * 2000
                for _ in range(RECORD_COUNT_MAX // 2000 + 1):
                    await producer.send_batch(batch)
                assert tracer.dropped_count == 2000
                started = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - started < 5
            assert tracer.dropped_count == 2000 + RECORD_COUNT_MAX + 1
            released.set()

    async def test_a_message_of_traces_leaves_after_half_a_second(self) -> None:
        clock = ManualClock()
        async with open_scripted() as scripted:
            scripted.add_topic("T")
            scripted.add_topic(TRACE_TOPIC)
            broker = scripted.brokers["broker-a"]
            async with Producer("orders", namesrv=scripted.namesrv, trace=True, clock=clock) as producer:
                await producer.send(Message("T", b"1"))
                await clock.advance(0.4)
                await producer.send(Message("T", b"2"))
                await asyncio.sleep(0.02)
                assert self.only_traces(broker) == []
                await clock.advance(0.11)
                await until(lambda: self.only_traces(broker))
                [frame] = self.only_traces(broker)
                assert len(decode_trace(frame.body)) == 2
                keys = decode_properties(frame.ext["i"])["KEYS"].split()
                assert len(keys) == 2
                assert frame.ext["a"].startswith("_INNER_TRACE_PRODUCER-orders-PRODUCE-")
                assert await _closed(producer, clock)


async def _closed(producer: Producer, clock: ManualClock) -> bool:
    closing = asyncio.create_task(producer.close())
    while not closing.done():
        await clock.advance(0.1)
        await asyncio.sleep(0.001)
    await closing
    return True


class TestConsumer:
    async def consume(
        self, cluster: Cluster, handler: Callable[[Any], Any], *, batch: int | None = None, **options: Any
    ) -> Traces:
        """The traces of a consumer that gets five messages."""
        cluster.create_topic("T", queues=1)
        await send_all(cluster, numbered(5))
        async with reading(cluster) as traces:
            consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", trace=True, **options)
            consumer.subscribe("T", "*", handler, batch=batch)
            async with consumer:
                await until(lambda: len(traces.of(SubAfter)) >= 5)
        return traces

    @pytest.mark.parametrize("orderly", [False, True], ids=["concurrently", "in order"])
    @pytest.mark.parametrize("is_async", [False, True], ids=["in threads", "on the loop"])
    async def test_every_call_leaves_two_traces(self, cluster: Cluster, orderly: bool, is_async: bool) -> None:
        seen: list[MessageView] = []

        async def handle(message: MessageView) -> None:
            seen.append(message)

        traces = await self.consume(cluster, handle if is_async else seen.append, orderly=orderly)
        befores, afters = traces.of(SubBefore), traces.of(SubAfter)
        assert {record.msg_id for record in befores} == {message.msg_id for message in seen}
        assert {(record.request_id, record.msg_id) for record in befores} == {
            (record.request_id, record.msg_id) for record in afters
        }
        assert len({record.request_id for record in befores}) == 5
        assert {(record.group, record.retry_times) for record in befores} == {("readers", 0)}
        assert {(record.is_success, record.context_code, record.group) for record in afters} == {
            (True, ConsumeOutcome.SUCCESS, "readers")
        }
        assert {key for message in traces.messages for key in message.keys} == {message.msg_id for message in seen}

    async def test_what_a_handler_says_is_in_the_trace(self, cluster: Cluster) -> None:
        async def handle(message: MessageView) -> ConsumeResult | None:
            if message.reconsume_times:
                return None
            if message.body == b"1":
                raise ValueError("cannot")
            return ConsumeResult.RETRY if message.body == b"2" else None

        traces = await self.consume(cluster, handle)
        outcomes = sorted((record.context_code, record.is_success) for record in traces.of(SubAfter)[:5])
        assert outcomes == [(0, True), (0, True), (0, True), (2, False), (4, False)]

    async def test_a_list_has_one_request_id_and_a_trace_for_each_message(self, cluster: Cluster) -> None:
        async def handle(messages: list[MessageView]) -> ConsumeResult:
            return ConsumeResult.consumed(3)

        traces = await self.consume(cluster, handle, batch=5)
        afters = traces.of(SubAfter)[:5]
        assert [record.is_success for record in afters] == [True, True, True, False, False]
        assert [record.context_code for record in afters] == [0, 0, 0, 4, 4]
        assert len({record.request_id for record in afters}) == 1

    async def test_a_call_that_takes_too_long_is_marked(self, cluster: Cluster) -> None:
        async def handle(message: MessageView) -> None:
            await asyncio.sleep(0.06)

        traces = await self.consume(cluster, handle, consume_timeout_s=0.05)
        assert {record.context_code for record in traces.of(SubAfter)} == {ConsumeOutcome.TIMEOUT}

    async def test_a_consumer_of_traces_is_not_traced(self, cluster: Cluster) -> None:
        cluster.create_topic(TRACE_TOPIC, queues=1)
        seen: list[MessageView] = []
        await send_all(cluster, numbered(3), topic=TRACE_TOPIC)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", trace=True)
        consumer.subscribe(TRACE_TOPIC, "*", seen.append)
        async with consumer:
            await until(lambda: len(seen) == 3)
            await asyncio.sleep(0.7)
        assert len(seen) == 3

    async def test_blocking_clients_are_traced_too(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)

        def work() -> None:
            seen: list[MessageView] = []
            consumer = blocking.PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", trace=True)
            consumer.subscribe("T", "*", seen.append)
            with blocking.Producer("orders", namesrv=cluster.namesrv, trace=True) as producer, consumer:
                producer.send(Message("T", b"x"))
                while not seen:
                    pass

        async with reading(cluster) as traces:
            await asyncio.to_thread(work)
            await until(lambda: traces.of(Pub) and traces.of(SubAfter))
        assert [record.msg_id for record in traces.of(Pub)] == [record.msg_id for record in traces.of(SubAfter)]

    async def test_polled_messages_are_traced_when_they_are_handed_out(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        await send_all(cluster, numbered(5))
        polled: list[MessageView] = []
        async with reading(cluster) as traces:
            consumer = LitePullConsumer("pollers", namesrv=cluster.namesrv, consume_from="first", trace=True)
            consumer.subscribe("T")
            async with consumer:
                while len(polled) < 5:
                    polled += await consumer.poll(5)
            await until(lambda: len(traces.of(SubAfter)) == 5)
            assert consumer.tracer is None
        assert {record.msg_id for record in traces.of(SubBefore)} == {message.msg_id for message in polled}
        assert {(record.context_code, record.is_success, record.group) for record in traces.of(SubAfter)} == {
            (ConsumeOutcome.SUCCESS, True, "pollers")
        }
