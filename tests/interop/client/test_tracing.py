"""Message traces: Apache's tools read ours, and our decoder reads those of Apache's client."""

from __future__ import annotations

import asyncio
import re

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import Message, MessageView
from skyrocketmq.wire.trace import ConsumeOutcome, Pub, SubAfter, SubBefore, TraceMessageType, TraceRecord, decode_trace
from tests.interop.client.support import client_test, fresh_group, fresh_name, until
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, message
from tests.interop.processes import wait_until

pytestmark = client_test

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@pytest.mark.parametrize("is_own_topic", [False, True], ids=["usual topic", "own topic"])
async def test_apaches_tool_shows_our_traces(java: Driver, cluster: Cluster, topic: str, is_own_topic: bool) -> None:
    own = fresh_name("Traces")
    group, handled = fresh_group(), asyncio.Event()
    consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first", trace=own if is_own_topic else True)

    @consumer.subscribe(topic)
    async def handle(received: MessageView) -> None:
        handled.set()

    async with consumer, Producer(group, namesrv=cluster.namesrv, trace=own if is_own_topic else True) as producer:
        result = await producer.send(Message(topic, b"traced", tags="A", keys="traced-key"))
        await asyncio.wait_for(handled.wait(), 30)

    def traces() -> str:
        arguments = ["-t", own] if is_own_topic else []
        return java.mqadmin("queryMsgTraceById", "-i", result.msg_id, *arguments, namesrv=cluster.namesrv)

    printed = ""
    while re.findall(r"^(Pub|Sub) ", printed, re.MULTILINE) != ["Pub", "Sub"]:
        printed = await asyncio.to_thread(traces)
        await asyncio.sleep(0.1)
    rows = [line.split() for line in printed.splitlines() if line.startswith(("Pub ", "Sub "))]
    assert [(row[0], row[1], row[-1]) for row in rows] == [("Pub", group, "success"), ("Sub", group, "success")]


async def test_traces_of_apaches_client_are_decoded(java: Driver, cluster: Cluster, topic: str) -> None:
    group = fresh_group()
    records: list[TraceRecord] = []

    async def read(received: MessageView) -> None:
        records.extend(decode_trace(received.body))

    def work() -> str:
        with (
            java.producer(group, namesrv=cluster.namesrv, trace=True) as producer,
            java.push_consumer(group, namesrv=cluster.namesrv, topic=topic, from_="first", trace=True) as consumer,
        ):
            [sent] = producer.send(message(topic, "traced", tags="A", keys="k1 k2"))
            producer.send(message(topic, "later", delay_level=1))
            consumer.received(at_least=1)
            # A consumer that is stopped while its listener is about to return reports a failure.
            wait_until(lambda: outcomes(sent.msg_id) != [], timeout_s=30, what="the trace of what was consumed")
            return str(sent.msg_id)

    def outcomes(msg_id: str | None) -> list[int]:
        return [record.context_code for record in records if isinstance(record, SubAfter) and record.msg_id == msg_id]

    def of(kind: type[TraceRecord]) -> list[TraceRecord]:
        return [record for record in records if isinstance(record, kind) and record.group == group]

    reader = PushConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first")
    reader.subscribe(TRACE_TOPIC, "*", read)
    async with reader:
        msg_id = await asyncio.to_thread(work)
        await until(lambda: len(of(Pub)) == 2 and of(SubBefore) and of(SubAfter), what="all traces are there")

    pub, delayed = sorted((record for record in of(Pub) if isinstance(record, Pub)), key=lambda one: one.message_type)
    assert (pub.msg_id, pub.topic, pub.tags, pub.keys) == (msg_id, topic, "A", "k1 k2")
    assert (pub.body_bytes, pub.is_success) == (6, True)
    assert delayed.message_type == TraceMessageType.DELAY
    assert pub.store_host in {broker.address for broker in cluster.brokers.values()}
    befores = [record for record in of(SubBefore) if isinstance(record, SubBefore) and record.msg_id == msg_id]
    afters = [record for record in of(SubAfter) if isinstance(record, SubAfter) and record.msg_id == msg_id]
    assert [record.request_id for record in befores] == [record.request_id for record in afters]
    assert [record.context_code for record in afters] == [ConsumeOutcome.SUCCESS]
