"""A run as a page to look at: one file, with everything in it.

Each node has a lane. Bars are lives of brokers and members, bands are faults, marks are events; those that matter to
the violation are lit, and the pointer tells the words of each. The page's own part is `page.html`, which draws what it
finds in one block of JSON; nothing is loaded from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from math import isinf
from typing import Any

import msgspec

from skyrocketmq.testing.simulation.checks import Evidence, Violation
from skyrocketmq.testing.simulation.history import (
    AnyEvent,
    BrokerEnded,
    BrokerStarted,
    ConsumerEnded,
    ConsumerStarted,
    FaultBegan,
    FaultHealed,
    HandlerBegan,
    HandlerEnded,
    History,
    LogDigested,
    SendAnswered,
    SendBegun,
    SendFailed,
    StoredSeen,
    TransactionDecided,
)
from skyrocketmq.testing.simulation.telling import matters, tell

__all__ = ["render_page"]

_PLACE = "/*DATA*/null"
MARKS_MAX = 6000  # what a browser draws without a pause; lit ones are always among them
_KINDS: tuple[tuple[tuple[type[Any], ...], str], ...] = (
    ((SendBegun,), "send"),
    ((SendAnswered,), "answer"),
    ((SendFailed,), "failure"),
    ((TransactionDecided,), "decision"),
    ((HandlerBegan,), "begin"),
    ((HandlerEnded,), "end"),
    ((StoredSeen, LogDigested), "stored"),
    ((BrokerStarted, BrokerEnded, ConsumerStarted, ConsumerEnded), "life"),
    ((FaultBegan, FaultHealed), "fault"),
)


def render_page(history: History, violations: Sequence[Violation], *, plan: str = "") -> str:
    """`plan` is shown as it is: what was left of it after shrinking."""
    data = msgspec.json.encode(_page_data(history, violations, plan)).decode()
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    assert template.count(_PLACE) == 1
    # Inside a script only a closing tag could end the data before its end.
    return template.replace(_PLACE, data.replace("</", "<\\/"))


def _page_data(history: History, violations: Sequence[Violation], plan: str) -> dict[str, Any]:
    evidence = Evidence(history)
    lit: dict[int, AnyEvent] = {}
    for violation in violations[:1]:
        lit = {event.order: event for event in matters(history, violation)}
    broken = {violation.order for violation in violations}
    marks = [event for event in history if event.order in lit or not isinstance(event, StoredSeen)]
    if len(marks) > MARKS_MAX:
        marks = [event for event in marks if event.order in lit] + marks[:MARKS_MAX]
        marks = list({event.order: event for event in marks}.values())
    return {
        "seed": history.seed,
        "digest": history.digest()[:16],
        "end": evidence.end_at,
        "events": len(history),
        "plan": plan,
        "violations": [{"check": v.check, "text": v.text, "order": v.order} for v in violations],
        "lanes": _lanes(history, evidence),
        "bars": _bars(evidence),
        "bands": [
            {
                "lane": fault.began.node,
                "from": fault.began.at,
                "to": evidence.end_at if isinf(fault.end_at) else fault.end_at,
                "text": f"{fault.began.fault} {fault.began.detail}".strip(),
            }
            for fault in evidence.faults
        ],
        "marks": [
            {
                "lane": event.node,
                "at": event.at,
                "order": event.order,
                "kind": next((name for kinds, name in _KINDS if isinstance(event, kinds)), "other"),
                "text": tell(event),
                "lit": event.order in lit,
                "broken": event.order in broken,
            }
            for event in sorted(marks, key=lambda event: event.order)
        ],
    }


def _lanes(history: History, evidence: Evidence) -> list[dict[str, str]]:
    """Senders above, brokers in the middle, consumers below: as messages go."""
    brokers = {life.node for lives in evidence.lives.values() for life in lives}
    consumers = {member.started.node for members in evidence.members.values() for member in members}
    nodes = sorted({event.node for event in history if event.node})
    senders = {event.node for event in history.of(SendBegun)}

    def rank(node: str) -> int:
        return 1 if node in senders else 2 if node in brokers else 3 if node in consumers else 0

    words = ("other", "sender", "broker", "consumer")
    return [{"name": node, "kind": words[rank(node)]} for node in sorted(nodes, key=lambda node: (rank(node), node))]


def _bars(evidence: Evidence) -> list[dict[str, Any]]:
    bars: list[dict[str, Any]] = []
    for lives in evidence.lives.values():
        for life in lives:
            end = evidence.end_at if isinf(life.end_at) else life.end_at
            text = f"{life.started.broker}: {life.started.role}, {life.started.flush}"
            how = life.ended.how if life.ended else ""
            bars.append({"lane": life.node, "from": life.started.at, "to": end, "text": text, "how": how})
    for members in evidence.members.values():
        for member in members:
            end = member.ended.at if member.ended else evidence.end_at
            text = f"{member.started.group} ({member.started.kind})"
            how = member.ended.how if member.ended else ""
            bars.append({"lane": member.started.node, "from": member.started.at, "to": end, "text": text, "how": how})
    return bars
