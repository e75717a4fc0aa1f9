"""The page of `trace`: what became of messages, how long it took, and journeys as timelines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skyrocketmq.spark.reports import Bar, Figure, Lane, Section, Span, bars, note, render, table, timeline
from skyrocketmq.spark.reports.page import Markup
from skyrocketmq.spark.reports.scales import count, duration, moment

if TYPE_CHECKING:
    from skyrocketmq.spark.jobs.trace_values import GroupTrace, Journey, TraceResult

__all__ = ["trace_page"]

_GOOD: Final = frozenset({"consumed", "rolled back"})
_COLOURS: Final = (
    ("sending", "c0"),
    ("stored", "c3"),
    ("transaction ends", "c4"),
    ("handled", "c2"),
    ("failed", "bad"),
    ("not finished", "c1"),
)
_COLOUR_OF: Final = dict(_COLOURS)


def trace_page(result: TraceResult) -> str:
    consumed = result.states.get("consumed", 0)
    failed = result.states.get("failed", 0) + result.states.get("send failed", 0)
    waiting = result.states.get("not consumed", 0)
    worst = max((group.wait_p99_ms or 0 for group in result.groups), default=0)
    figures = [
        Figure("messages", count(result.messages), f"{len(result.groups)} pairs of topic and group"),
        Figure("consumed", count(consumed), _share(consumed, result.messages)),
        Figure("failed", count(failed), _share(failed, result.messages), is_bad=failed > 0),
        Figure("not consumed", count(waiting), _share(waiting, result.messages), is_bad=waiting > 0),
        Figure("sent to handled, 99 %", duration(worst), "of the slowest group"),
    ]
    return render(
        "Journeys of messages",
        lead=f"{result.place}, traces in {result.trace_topic}",
        figures=figures,
        sections=_sections(result),
        foot="Times are UTC, from the clocks of the machines that wrote them.",
    )


def _share(amount: int, whole: int) -> str:
    return f"{100 * amount / whole:.1f} %" if whole else ""


def _sections(result: TraceResult) -> list[Section]:
    from skyrocketmq.spark.jobs.trace_journeys import STATES

    bad = [one for one in result.examples if one.state not in _GOOD]
    slow = [one for one in result.examples if one.state in _GOOD]
    states = [(state, count(amount), STATES.get(state, "")) for state, amount in result.states.items()]
    sections = [
        Section("What became of them", (_states(states), _by_topic(result))),
        Section(
            "From sending to the first handler",
            (bars(_waits(result.waits), x_label="time", y_label="messages"), _groups(result.groups)),
        ),
    ]
    if bad:
        sections.append(Section("Journeys that went wrong", (_timeline(bad), _table(bad))))
    if slow:
        sections.append(Section("The slowest journeys", (_timeline(slow), _table(slow))))
    sections.append(Section("Clocks", tuple(_clocks(result))))
    if result.unreadable:
        text = f"{count(result.unreadable)} messages of the trace topic hold no records that can be read."
        sections.append(Section("Unreadable", (note(text, is_bad=True),)))
    return sections


def _states(rows: Sequence[tuple[str, str, str]]) -> Markup:
    return table(
        ["state", "meaning", "messages"], [(state, meaning, amount) for state, amount, meaning in rows], texts=2
    )


def _by_topic(result: TraceResult) -> Markup:
    rows = [
        (one.topic, one.state, count(one.messages), *map(_time, (one.send_p50_ms, one.send_p95_ms, one.send_p99_ms)))
        for one in result.topics
    ]
    return table(["topic", "state", "messages", "sending, median", "95 %", "99 %"], rows, texts=2)


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else duration(milliseconds)


def _waits(waits: dict[int, int]) -> list[Bar]:
    if not waits:
        return []
    return [
        Bar(f"< {duration(2**power)}" if power else "0 ms", waits.get(power, 0))
        for power in range(min(waits), max(waits) + 1)
    ]


def _groups(groups: Sequence[GroupTrace]) -> Markup:
    headings = [
        "topic",
        "group",
        "messages",
        "attempts",
        "failures",
        "no success",
        "wait, median",
        "95 %",
        "99 %",
        "longest",
        "call",
        "99 %",
    ]
    rows = [
        (
            *(one.topic, one.group),
            *map(count, (one.messages, one.attempts, one.failures, one.without_success)),
            *map(_time, (one.wait_p50_ms, one.wait_p95_ms, one.wait_p99_ms, one.wait_max_ms)),
            *map(_time, (one.call_p50_ms, one.call_p99_ms)),
        )
        for one in groups
    ]
    return table(headings, rows, texts=2)


def _timeline(journeys: Sequence[Journey]) -> Markup:
    lanes = [Lane(f"{one.topic or '?'} {one.keys or one.msg_id}", spans) for one in journeys if (spans := _spans(one))]
    return timeline(lanes, x_label="time since sending", names=_COLOURS)


def _spans(journey: Journey) -> tuple[Span, ...]:
    made: list[Span] = []
    if journey.sent_ms is not None:
        end = journey.sent_ms + (journey.send_cost_ms or 0)
        text = f"sent by {journey.producer} at {moment(journey.sent_ms)}, {duration(end - journey.sent_ms)}"
        made.append(Span(journey.sent_ms, end, _COLOUR_OF["sending"], text))
    if journey.stored_ms is not None:
        text = f"stored by {journey.store_host} at {moment(journey.stored_ms)}"
        made.append(Span(journey.stored_ms, journey.stored_ms, _COLOUR_OF["stored"], text))
    if journey.transaction_ms is not None:
        text = f"{journey.transaction_state} at {moment(journey.transaction_ms)}"
        made.append(Span(journey.transaction_ms, journey.transaction_ms, _COLOUR_OF["transaction ends"], text))
    for call in journey.deliveries:
        if call.begun_ms is not None:
            ended = call.ended_ms if call.ended_ms is not None else call.begun_ms
            name = {"success": "handled", "unfinished": "not finished"}.get(call.outcome, "failed")
            attempt = f", attempt {call.retry_times + 1}" if call.retry_times is not None else ""
            text = f"{call.group} at {call.client}{attempt}: {call.outcome}, {duration(ended - call.begun_ms)}"
            made.append(Span(call.begun_ms, max(ended, call.begun_ms), _COLOUR_OF[name], text))
    return tuple(made)


def _table(journeys: Sequence[Journey]) -> Markup:
    headings = ["message", "topic", "keys", "state", "last outcome", "sent", "wait", "deliveries"]
    rows = [
        (
            *(one.msg_id, one.topic, one.keys, one.state),
            one.deliveries[-1].outcome if one.deliveries else None,
            None if one.sent_ms is None else moment(one.sent_ms),
            _time(one.wait_ms),
            len(one.deliveries),
        )
        for one in journeys
    ]
    return table(headings, rows, texts=5)


def _clocks(result: TraceResult) -> list[Markup]:
    if not result.skews:
        return [note("No effect comes before its cause: clocks differ by less than messages take.")]
    headings = ["machine", "is ahead of", "by at least", "seen"]
    rows = [(one.ahead, one.behind, duration(one.ahead_ms), f"{one.times:,} times") for one in result.skews]
    text = "Clocks differ: latencies between these machines are wrong by as much."
    return [note(text, is_bad=True), table(headings, rows, texts=2)]
