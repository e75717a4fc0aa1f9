"""Events in words, and which of them matter to a violation."""

from __future__ import annotations

from collections.abc import Iterator

from skyrocketmq.testing.simulation.checks.violation import Violation
from skyrocketmq.testing.simulation.history import (
    AnyEvent,
    BrokerEnded,
    BrokerStarted,
    ClockMoved,
    ConsumerEnded,
    ConsumerStarted,
    FaultBegan,
    FaultHealed,
    HandlerBegan,
    HandlerEnded,
    History,
    LogDigested,
    OffsetReset,
    OffsetSeen,
    QueueEnds,
    QueueLocked,
    QueueUnlocked,
    RunEnded,
    SendAnswered,
    SendBegun,
    SendFailed,
    StoredSeen,
    TopicMade,
    TransactionDecided,
)

__all__ = ["matters", "tell", "timeline"]

# What happens to machines matters to everything that they did.
_FRAME = (BrokerStarted, BrokerEnded, FaultBegan, FaultHealed, ClockMoved, RunEnded)
NEIGHBOURS_MAX = 40  # events of the same queue, around the place where it broke


def timeline(history: History, violation: Violation, *, lines_max: int = 80) -> str:
    """The events that matter, one a line, with the place where the promise was broken."""
    chosen = matters(history, violation)
    left_out = max(0, len(chosen) - lines_max)
    lines = [f"  ... {left_out} earlier events"] if left_out else []
    for event in chosen[left_out:]:
        sign = ">>" if event.order == violation.order else "  "
        lines.append(f"{sign}{event.at:12.6f} s  {event.node:<10} {tell(event)}")
    if violation.order < 0:
        lines.append(f">>{'at the end':>12}    {violation.text}")
    return "\n".join(lines)


def matters(history: History, violation: Violation) -> list[AnyEvent]:
    """Machines and faults; what befell the messages and members of the violation; its queue, around that place."""
    messages, calls = set(violation.messages), set[tuple[str, str, int]]()
    chosen: dict[int, AnyEvent] = {}
    near: list[AnyEvent] = []
    for event in history:
        if isinstance(event, _FRAME) or getattr(event, "message", None) in messages:
            chosen[event.order] = event
            if isinstance(event, HandlerBegan):
                calls.add((event.node, event.group, event.call))
        elif isinstance(event, HandlerEnded):
            if (event.node, event.group, event.call) in calls:
                chosen[event.order] = event
        elif _is_of_place(event, violation):
            near.append(event)
    pivot = violation.order if violation.order >= 0 else max((o for o in chosen), default=0)
    near.sort(key=lambda event: abs(event.order - pivot))
    chosen.update((event.order, event) for event in near[:NEIGHBOURS_MAX])
    return [chosen[order] for order in sorted(chosen)]


def _is_of_place(event: AnyEvent, violation: Violation) -> bool:
    if isinstance(event, ConsumerStarted | ConsumerEnded):
        return not violation.group or event.group == violation.group
    if isinstance(event, LogDigested):
        return event.node in violation.nodes
    queue, group = getattr(event, "queue", None), getattr(event, "group", "")
    if queue is None or queue != violation.queue or isinstance(event, StoredSeen):
        return False
    return not violation.group or not group or group == violation.group


def tell(event: AnyEvent) -> str:
    return " ".join(word for word in _words(event) if word)


def _words(event: AnyEvent) -> Iterator[str]:
    match event:
        case SendBegun():
            yield from (event.kind, f"send of {event.message} to {event.topic}", _option("key", event.key))
            yield from (_option("tag", event.tag), f"delay {event.delay_s:g} s" if event.delay_s else "")
            yield from ("" if event.wait else "does not wait", _option("batch", event.batch))
        case SendAnswered():
            yield f"{event.message} answered {event.status} at {event.queue}+{event.offset}"
        case SendFailed():
            yield f"{event.message} failed: {event.error}"
        case TransactionDecided():
            yield f"{event.message}: {event.decision}"
            yield from ("asked by the broker" if event.asked else "", "confirmed" if event.heard else "")
        case HandlerBegan():
            yield f"{event.group} ({event.kind}) begins {event.message} from {event.queue}+{event.offset}"
            yield f"attempt {event.attempt}" if event.attempt else ""
        case HandlerEnded():
            yield f"{event.group} ends call {event.call}: {event.outcome}"
            yield f"again after {event.delay_s:g} s" if event.delay_s else ""
        case StoredSeen():
            yield f"{event.message} lies at {event.queue}+{event.offset}" + ("" if event.final else ", for now")
        case BrokerStarted():
            yield f"broker {event.broker} serves as {event.role}, {event.flush}, log up to {event.recovered_to}"
        case BrokerEnded():
            yield f"broker {event.broker}: {event.how}"
        case FaultBegan():
            yield f"fault {event.number} begins: {event.fault} {event.detail}".rstrip()
        case FaultHealed():
            yield f"fault {event.number} heals: {event.fault}"
        case _:
            yield from _words_of_others(event)


def _words_of_others(event: AnyEvent) -> Iterator[str]:
    match event:
        case TopicMade():
            yield f"topic {event.topic} on {', '.join(event.brokers)}, {event.queue_count} queues each"
        case ConsumerStarted():
            yield f"joins {event.group} ({event.kind}) for {', '.join(event.topics)}"
        case ConsumerEnded():
            yield f"leaves {event.group}: {event.how}"
        case ClockMoved():
            yield f"clock is {event.skew_ms:+d} ms off"
        case QueueLocked():
            yield f"{event.group} locks {event.queue}"
        case QueueUnlocked():
            yield f"{event.group} gives {event.queue} back"
        case OffsetSeen():
            yield f"{event.group} is at {event.queue}+{event.offset}"
        case OffsetReset():
            yield f"reset of {event.group} at {event.topic} {'ends' if event.done else 'begins'}"
        case QueueEnds():
            yield f"{event.queue} holds [{event.first}, {event.end})"
        case LogDigested():
            yield f"log of {event.broker} as {event.role}, [{event.start}, {event.end}): {event.digest[:12]}"
        case RunEnded():
            yield "at rest" if event.settled else f"not at rest: {event.why}"
        case _:
            yield repr(event)


def _option(name: str, value: str) -> str:
    return f"{name} {value}" if value else ""
