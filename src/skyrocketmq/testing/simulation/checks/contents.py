"""Nobody is shown what was never sent, and a number of a queue stands for one message, for ever."""

from __future__ import annotations

from collections.abc import Iterator

from skyrocketmq.testing.simulation.checks.evidence import DEAD, RETRY, Evidence
from skyrocketmq.testing.simulation.checks.promotions import Promotions
from skyrocketmq.testing.simulation.checks.violation import Violation
from skyrocketmq.testing.simulation.history import HandlerBegan, QueueId, StoredSeen

__all__ = ["nothing_is_invented", "one_offset_one_message"]


def nothing_is_invented(evidence: Evidence) -> Iterator[Violation]:
    """Whatever is shown or stored was sent before, to that topic, with that body and those properties."""
    for event in _sightings(evidence):
        if problem := _problem(evidence, event):
            where = f"{event.queue}+{event.offset}"
            text = f"{event.message} at {where}, seen by {event.node}: {problem}"
            yield Violation(
                "nothing is invented", text, event.order, (event.message,), queue=event.queue, nodes=(event.node,)
            )


def _problem(evidence: Evidence, event: HandlerBegan | StoredSeen) -> str:
    sent = evidence.sent.get(event.message)
    if sent is None:
        return "nobody sent it"
    if sent.begun.order > event.order:
        return "it is sent only later"
    if sent.begun.content != event.content:
        return "it was sent with another body or other properties"
    topic, prefix = event.queue.topic, sent.begun.topic
    if topic == prefix:
        return ""
    group = topic.removeprefix(RETRY).removeprefix(DEAD)
    members = evidence.members.get(group)
    if group == topic or not members or prefix not in members[0].started.topics:
        return f"it was sent to {prefix}"
    return ""


def one_offset_one_message(evidence: Evidence) -> Iterator[Violation]:
    """What was once told, shown or stored at a number is what everybody finds there, at any time."""
    promotions = Promotions(evidence)
    known: dict[tuple[QueueId, int], tuple[str, str]] = {}
    reported: set[tuple[QueueId, int]] = set()
    over: set[tuple[str, QueueId, int, str]] = set()  # what a member got from a master that is lost, it may still have
    for order, node, queue, offset, message, stored_by in sorted(_numbered(evidence)):
        if promotions.is_over(queue, offset, order, stored_by=stored_by):
            over.add((node, queue, offset, message))
        if (node, queue, offset, message) in over:
            continue
        place = (queue, offset)
        before, by = known.setdefault(place, (message, node))
        if before != message and place not in reported:
            reported.add(place)
            text = f"{queue}+{offset} is {before} for {by}, and later {message} for {node}"
            yield Violation("one offset, one message", text, order, (before, message), queue=queue, nodes=(by, node))


def _numbered(evidence: Evidence) -> Iterator[tuple[int, str, QueueId, int, str, str]]:
    for event in _sightings(evidence):
        stored_by = event.stored_by if isinstance(event, HandlerBegan) else ""
        yield event.order, event.node, event.queue, event.offset, event.message, stored_by
    for sent in evidence.sent.values():
        answered = sent.answered
        # The answer to a delayed or a half message tells a place in the topic where it waits.
        if answered is not None and answered.offset >= 0 and sent.begun.kind in ("plain", "batch"):
            yield answered.order, answered.node, answered.queue, answered.offset, answered.message, ""


def _sightings(evidence: Evidence) -> list[HandlerBegan | StoredSeen]:
    masters = evidence.final_masters
    at_master = [e for e in evidence.stored if e.node == masters.get(e.queue.broker)]
    return sorted([*evidence.shown, *at_master], key=lambda event: event.order)
