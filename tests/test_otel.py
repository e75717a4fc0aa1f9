"""OpenTelemetry: spans of sends and handlers, joined by what travels in the messages' properties."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from skyrocketmq import ConsumeResult, Message, MessageView, Producer, PushConsumer
from skyrocketmq.client import LitePullConsumer
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.otel import Tracing, instrument
from skyrocketmq.testing import LocalCluster
from tests.net.support import until


class Spans:
    """A provider whose finished spans can be looked at."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as opened:
        await opened.create_topic("T", queues=1)
        yield opened


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_goes_on_with_the_trace_of_the_sender(
    cluster: LocalCluster, spans: Spans, is_async: bool
) -> None:
    stop = instrument(spans.provider)
    try:
        producer = Producer("shop", namesrv=cluster.namesrv)
        consumer = PushConsumer("billing", namesrv=cluster.namesrv, consume_from="first")
    finally:
        stop()
    tracer = trace.get_tracer("test", tracer_provider=spans.provider)
    seen: list[MessageView] = []

    def bill(message: MessageView) -> None:
        with tracer.start_as_current_span("write bill"):
            seen.append(message)

    async def bill_async(message: MessageView) -> None:
        bill(message)

    consumer.subscribe("T", "*", bill_async if is_async else bill)
    async with producer, consumer:
        with tracer.start_as_current_span("checkout"):
            result = await producer.send(Message("T", b"body", tags="A", keys=["k1", "k2"]))
        await until(lambda: spans.named("process T"))
    (checkout,), (sent,) = spans.named("checkout"), spans.named("send T")
    (processed,), (written,) = spans.named("process T"), spans.named("write bill")
    assert (sent.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert [span.parent.span_id for span in (sent, processed, written) if span.parent] == [
        span_id(checkout),
        span_id(sent),
        span_id(processed),
    ]
    assert len({span.context.trace_id for span in (checkout, sent, processed, written) if span.context}) == 1
    assert seen[0].properties["traceparent"].split("-")[2] == f"{span_id(sent):016x}"
    common = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": "T",
        "messaging.destination.partition.id": "0",
        "messaging.message.id": result.msg_id,
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.tag": "A",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
    }
    assert dict(sent.attributes or {}) == common | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.rocketmq.client_group": "shop",
        "messaging.rocketmq.message.type": "normal",
        "messaging.rocketmq.broker.name": "broker-a",
        "messaging.rocketmq.send.status": "SEND_OK",
    }
    assert dict(processed.attributes or {}) == common | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "billing",
        "messaging.rocketmq.message.reconsume_times": 0,
    }


async def test_a_list_of_messages_has_links_to_all_of_their_sends(cluster: LocalCluster, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    consumer = PushConsumer("billing", namesrv=cluster.namesrv, consume_from="first", hooks=[tracing])
    consumer.subscribe("T", "*", lambda messages: None, batch=10)
    async with Producer("shop", namesrv=cluster.namesrv, hooks=[tracing]) as producer:
        await producer.send_batch([Message("T", b"1"), Message("T", b"2")])
        await producer.send(Message("T", b"3", delay_level=0))
    async with consumer:
        await until(lambda: sum(len(span.links) for span in spans.named("process T")) == 3)
    batch, single = spans.named("send T")
    assert (batch.attributes or {})["messaging.batch.message_count"] == 2
    linked = [link.context.span_id for span in spans.named("process T") for link in span.links]
    assert linked == [span_id(batch), span_id(batch), span_id(single)]


async def test_failures_are_marked_on_their_spans(cluster: LocalCluster, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    outcomes = [ConsumeResult.RETRY, None]

    def fail(message: MessageView) -> ConsumeResult:
        outcome = outcomes.pop(0)
        if outcome is None:
            raise ValueError("as the test wants it")
        return outcome

    consumer = PushConsumer("billing", namesrv=cluster.namesrv, consume_from="first", hooks=[tracing])
    consumer.subscribe("T", "*", fail)
    async with Producer("shop", namesrv=cluster.namesrv, hooks=[tracing], message_bytes_max=10) as producer, consumer:
        with pytest.raises(IllegalArgument):
            await producer.send(Message("T", b"x" * 11))
        await producer.send(Message("T", b"1"))
        await producer.send(Message("T", b"2"))
        await until(lambda: len(spans.named("process T")) == 2)
    refused = spans.named("send T")[0]
    assert refused.status.status_code is StatusCode.ERROR
    assert (refused.attributes or {})["error.type"] == "skyrocketmq.errors.IllegalArgument"
    assert {(span.attributes or {})["error.type"] for span in spans.named("process T")} == {
        "retry",
        "builtins.ValueError",
    }
    assert {span.status.status_code for span in spans.named("process T")} == {StatusCode.ERROR}


async def test_what_is_pulled_by_hand_can_be_traced_too(cluster: LocalCluster, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    async with Producer("shop", namesrv=cluster.namesrv, hooks=[tracing]) as producer:
        await producer.send(Message("T", b"1"))
    async with LitePullConsumer("readers", namesrv=cluster.namesrv, consume_from="first") as consumer:
        consumer.assign(await consumer.queues("T"))
        (message,) = await consumer.poll(timeout_s=10)
        with tracing.processing(message, group="readers"):
            pass
    (sent,), (processed,) = spans.named("send T"), spans.named("process T")
    assert processed.parent is not None
    assert processed.parent.span_id == span_id(sent)


def test_without_the_extra_clients_work_and_its_module_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import skyrocketmq.client, skyrocketmq.blocking\n"
        "try:\n    import skyrocketmq.otel\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert "pip install 'skyrocketmq[otel]'" in done.stdout
