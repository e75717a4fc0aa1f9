"""Never early: delayed messages and retries keep their times."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from skyrocketmq.testing.simulation.checks.evidence import RETRY, Evidence
from skyrocketmq.testing.simulation.checks.violation import Violation

__all__ = ["delays_are_kept", "retries_wait"]

ROUNDING_S = 0.002  # brokers reckon in whole milliseconds
HANDED_BACK_WITHIN_S = 10.0  # a consumer tries for so long


def delays_are_kept(evidence: Evidence) -> Iterator[Violation]:
    """By the broker's clock nobody gets a delayed message before its time."""
    for event in evidence.shown:
        sent = evidence.sent.get(event.message)
        if sent is None or not sent.begun.delay_s:
            continue
        due_at = sent.begun.at + sent.begun.delay_s - ROUNDING_S
        stored_by = sent.answered.at if sent.answered else inf
        gained = _clock_gain(evidence, event.queue.broker, sent.begun.at, event.at, stored_by=stored_by)
        if event.at < due_at - gained:
            early = due_at - gained - event.at
            text = f"{event.message} with a delay of {sent.begun.delay_s:g} s came {early:.3f} s early"
            yield Violation("never early", text, event.order, (event.message,), event.queue, event.group, (event.node,))


def retries_wait(evidence: Evidence) -> Iterator[Violation]:
    """A message handed back comes again only after the pause of its level."""
    handed_back: dict[tuple[str, str, int], tuple[float, float]] = {}  # -> earliest (due at, handed back at)
    ends = sorted((c for c in evidence.calls if c.ended), key=lambda c: c.end_order)
    for call in ends:
        assert call.ended is not None
        if call.ended.outcome in ("retry", "error"):
            for e in call.shown:
                key = (e.group, e.message, e.attempt + 1)
                due = (call.end_at + call.ended.delay_s, call.end_at)
                handed_back[key] = min(handed_back.get(key, due), due)
    for event in evidence.shown:
        if not event.queue.topic.startswith(RETRY):
            continue
        found = handed_back.get((event.group, event.message, event.attempt))
        if found is None:
            continue  # the member died with the end of its call unnoted
        due_at, since = found
        stored_by = since + HANDED_BACK_WITHIN_S
        gained = _clock_gain(evidence, event.queue.broker, since, event.at, stored_by=stored_by)
        if event.at < due_at - ROUNDING_S - gained:
            text = f"{event.message} came to {event.group} again {due_at - event.at:.3f} s before its pause was over"
            yield Violation("never early", text, event.order, (event.message,), event.queue, event.group, (event.node,))


def _clock_gain(evidence: Evidence, broker: str, begin: float, end: float, *, stored_by: float) -> float:
    """How far the clocks of a broker may have run ahead of true time, from when a message was stored, between `begin`
    and `stored_by`, to `end`. A clock that is set back gains nothing."""
    nodes = {life.node for life in evidence.lives.get(broker, ())}
    at_begin = dict.fromkeys(nodes, 0)
    when_stored: list[int] = []
    later: list[int] = []
    for move in evidence.clock_moves:
        if move.node not in nodes or move.at > end:
            continue
        if move.at < begin:
            at_begin[move.node] = move.skew_ms
        elif move.at < stored_by:
            when_stored.append(move.skew_ms)
        else:
            later.append(move.skew_ms)
    when_stored += at_begin.values()
    return max(0, max([*when_stored, *later], default=0) - min(when_stored, default=0)) / 1000
