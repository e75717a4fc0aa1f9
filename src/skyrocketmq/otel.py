"""OpenTelemetry: a span for every send and for every call of a handler, joined across processes by message properties.

    from skyrocketmq.otel import instrument

    instrument()                                                # every client that is made from now on
    Producer("orders", hooks=[Tracing()])                       # or this one only

| span | kind | parent |
|---|---|---|
| `send TOPIC` | producer | what is current where `send` is called |
| `process TOPIC` | consumer | the send of the message; for a list of messages each send is a link |

Attributes are those of the `messaging.*` conventions, with a few more under `messaging.rocketmq.`: the broker's name,
the status of a send, the number of attempts. Message bodies are never among them. The context travels as the user
properties `traceparent`, `tracestate` and whatever else the propagator in use writes, so that clients in other
languages can go on with it.

Needs the extra: `pip install skyrocketmq[otel]`. Spans go wherever the application's tracer provider sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

try:
    from opentelemetry import propagate, trace
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
    from opentelemetry.util.types import AttributeValue
except ImportError as error:
    raise ImportError("skyrocketmq.otel needs OpenTelemetry: pip install 'skyrocketmq[otel]'") from error

from skyrocketmq import __version__
from skyrocketmq.client.consume_result import Verdict
from skyrocketmq.client.hooks import HandlerCall, SendCall, default_hooks
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.model import Message, MessageView

__all__ = ["Tracing", "instrument"]

SYSTEM: Final = "rocketmq"
FAILED_VERDICTS: Final = (Verdict.RETRY, Verdict.ROLLBACK)


def instrument(tracer_provider: trace.TracerProvider | None = None) -> Callable[[], None]:
    """Trace every producer and push consumer that is made from now on, until what is returned is called."""
    tracing = Tracing(tracer_provider)
    default_hooks.append(tracing)
    return lambda: default_hooks.remove(tracing)


class Tracing:
    """The hook that makes the spans. Without a `tracer_provider` the application's global one is used."""

    def __init__(self, tracer_provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("skyrocketmq", __version__, tracer_provider)

    @contextmanager
    def sending(self, call: SendCall) -> Iterator[None]:
        """A span around a send; the messages that travel know of it."""
        if not call.messages:
            yield  # an empty batch is refused further on
            return
        first = call.messages[0]
        with self._span(f"send {first.topic}", SpanKind.PRODUCER, _send_attributes(call)) as span:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            added = {name: value for name, value in carrier.items() if value.strip()}
            if added:
                call.messages[:] = [message.with_properties(added) for message in call.messages]
            yield
            if call.result is not None:
                span.set_attributes(_result_attributes(call.result))

    @contextmanager
    def handling(self, call: HandlerCall) -> Iterator[None]:
        """A span around a handler's call; it is current there, so that what the handler does belongs to it."""
        first = call.messages[0]
        parent = None if call.is_batch else propagate.extract(first.properties)
        links = _links(call) if call.is_batch else ()
        attributes = _process_attributes(call)
        name = f"process {first.topic}"
        with (
            self._tracer.start_as_current_span(
                name, context=parent, kind=SpanKind.CONSUMER, attributes=attributes, links=links
            ) as span,
            _error_type(span),
        ):
            yield
            if call.result is not None and call.result.verdict in FAILED_VERDICTS:
                span.set_attribute("error.type", call.result.verdict.name.lower())
                span.set_status(Status(StatusCode.ERROR, f"the handler wants it {call.result.verdict.value}"))

    def processing(self, *messages: MessageView, group: str) -> AbstractContextManager[None]:
        """The same for messages that were pulled by hand: `with tracing.processing(message, group="billing"): ...`"""
        return self.handling(HandlerCall(group, messages, is_batch=len(messages) > 1))

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: dict[str, AttributeValue]) -> Iterator[Span]:
        with self._tracer.start_as_current_span(name, kind=kind, attributes=attributes) as span, _error_type(span):
            yield span


@contextmanager
def _error_type(span: Span) -> Iterator[None]:
    """Name the class of an error, as the conventions want it; the span itself takes down the rest."""
    try:
        yield
    except Exception as error:
        span.set_attribute("error.type", f"{type(error).__module__}.{type(error).__qualname__}")
        raise


def _send_attributes(call: SendCall) -> dict[str, AttributeValue]:
    first = call.messages[0]
    attributes = _common_attributes("send", first)
    attributes["messaging.rocketmq.client_group"] = call.group
    if first.delay_level:
        attributes["messaging.rocketmq.message.delay_time_level"] = first.delay_level
    attributes["messaging.rocketmq.message.type"] = "delay" if first.delay_level else "normal"
    if call.is_batch:
        attributes["messaging.batch.message_count"] = len(call.messages)
    else:
        attributes["messaging.message.body.size"] = len(first.body)
    return attributes


def _result_attributes(result: SendResult) -> dict[str, AttributeValue]:
    return {
        "messaging.message.id": result.msg_id,
        "messaging.destination.partition.id": str(result.queue.queue_id),
        "messaging.rocketmq.broker.name": result.queue.broker_name,
        "messaging.rocketmq.send.status": result.status.value,
    }


def _process_attributes(call: HandlerCall) -> dict[str, AttributeValue]:
    first = call.messages[0]
    attributes = _common_attributes("process", first)
    attributes["messaging.consumer.group.name"] = call.group
    attributes["messaging.destination.partition.id"] = str(first.queue.queue_id)
    if call.is_batch:
        attributes["messaging.batch.message_count"] = len(call.messages)
        return attributes
    attributes["messaging.message.id"] = first.msg_id
    attributes["messaging.message.body.size"] = len(first.body)
    attributes["messaging.rocketmq.message.reconsume_times"] = first.reconsume_times
    return attributes


def _common_attributes(operation: str, message: Message | MessageView) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": message.topic,
    }
    if message.tags:
        attributes["messaging.rocketmq.message.tag"] = message.tags
    if message.keys:
        attributes["messaging.rocketmq.message.keys"] = message.keys
    return attributes


def _links(call: HandlerCall) -> list[Link]:
    contexts = [
        trace.get_current_span(propagate.extract(message.properties)).get_span_context() for message in call.messages
    ]
    return [Link(context) for context in contexts if context.is_valid]
