"""Tracing what a consumer does: a SubBefore record when a handler gets a message, a SubAfter when it has returned.

A call with several messages makes two records for each of them, all under one request id. Who polls messages has no
handler: both records are made when they are handed out, and say success, as Apache's clients do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.hooks import HandlerCall, SendCall
from skyrocketmq.client.tracing import Tracer
from skyrocketmq.model import MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.wire.trace import ConsumeOutcome, SubAfter, SubBefore

__all__ = ["TraceHandling", "trace_polled"]


class TraceHandling:
    """A consumer's hook. `tracer` is there while the consumer is open.

    A call that takes `timeout_s` or longer is shown as timed out, as in Apache's traces.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self.tracer: Tracer | None = None
        self._timeout_s = timeout_s

    def sending(self, call: SendCall) -> AbstractContextManager[object]:
        return nullcontext()  # what a consumer sends back is the broker's business

    @contextmanager
    def handling(self, call: HandlerCall) -> Iterator[None]:
        tracer = self.tracer
        messages = list(call.messages)  # a handler may do with its list what it likes
        if tracer is None or not tracer.traces(messages[0].topic):
            yield
            return
        clock = tracer.instance.clock
        started_ms, started = clock.now_ms(), clock.monotonic()
        request_id = tracer.instance.ids.next_id(started_ms)
        tracer.add(*_befores(messages, tracer.group, request_id, started_ms))
        outcomes = [ConsumeOutcome.EXCEPTION] * len(messages)
        is_known = True
        try:
            yield
            is_known = call.result is not None  # not yet, if a plain function gave back something to await
            outcomes = _outcomes(call.result, len(messages))
        finally:
            if is_known:
                cost_s = clock.monotonic() - started
                tracer.add(
                    *_afters(
                        messages,
                        outcomes,
                        tracer.group,
                        request_id,
                        cost_ms=round(cost_s * 1000),
                        end_ms=clock.now_ms(),
                        is_late=cost_s >= self._timeout_s,
                    )
                )


def trace_polled(tracer: Tracer, messages: Sequence[MessageView]) -> None:
    """Trace messages of one topic that were handed out to who polled them."""
    if not messages or not tracer.traces(messages[0].topic):
        return
    now_ms = tracer.instance.clock.now_ms()
    request_id = tracer.instance.ids.next_id(now_ms)
    outcomes = [ConsumeOutcome.SUCCESS] * len(messages)
    tracer.add(
        *_befores(messages, tracer.group, request_id, now_ms),
        *_afters(messages, outcomes, tracer.group, request_id, cost_ms=0, end_ms=now_ms, is_late=False),
    )


def _outcomes(result: ConsumeResult | None, count: int) -> list[ConsumeOutcome]:
    """What a call's result means for each of its messages."""
    success_count = count
    if result is not None and result.verdict in (Verdict.RETRY, Verdict.ROLLBACK):
        success_count = 0
    elif result is not None and result.consumed_count is not None:
        success_count = min(max(result.consumed_count, 0), count)
    return [ConsumeOutcome.SUCCESS] * success_count + [ConsumeOutcome.FAILED] * (count - success_count)


def _is_traced(message: MessageView) -> bool:
    return message.properties.get(names.TRACE_ON) != "false"


def _befores(messages: Sequence[MessageView], group: str, request_id: str, now_ms: int) -> list[SubBefore]:
    return [
        SubBefore(
            start_ms=now_ms,
            region=message.properties.get(names.MSG_REGION),
            group=group,
            request_id=request_id,
            msg_id=message.msg_id,
            retry_times=message.reconsume_times,
            keys=message.properties.get(names.KEYS),
        )
        for message in messages
        if _is_traced(message)
    ]


def _afters(
    messages: Sequence[MessageView],
    outcomes: Sequence[ConsumeOutcome],
    group: str,
    request_id: str,
    *,
    cost_ms: int,
    end_ms: int,
    is_late: bool,
) -> list[SubAfter]:
    return [
        SubAfter(
            request_id=request_id,
            msg_id=message.msg_id,
            cost_ms=cost_ms // len(messages),
            is_success=outcome is ConsumeOutcome.SUCCESS,
            keys=message.properties.get(names.KEYS),
            context_code=ConsumeOutcome.TIMEOUT if is_late and outcome is not ConsumeOutcome.EXCEPTION else outcome,
            end_ms=end_ms,
            group=group,
        )
        for message, outcome in zip(messages, outcomes, strict=True)
        if _is_traced(message)
    ]
