"""Transactions end once and as they were told to; a message dies once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from skyrocketmq.testing.simulation.checks.evidence import DEAD, Evidence
from skyrocketmq.testing.simulation.checks.violation import Violation
from skyrocketmq.testing.simulation.history import HandlerBegan, StoredSeen

__all__ = ["dead_once", "transactions_hold"]


def transactions_hold(evidence: Evidence) -> Iterator[Violation]:
    """Nobody sees what is not committed or was rolled back, and a commit counts once on its broker."""
    sightings: list[HandlerBegan | StoredSeen] = [*evidence.shown, *evidence.stored]
    for event in sorted(sightings, key=lambda event: event.order):
        sent = evidence.sent.get(event.message)
        if sent is None or sent.begun.kind != "transactional":
            continue
        told = {decision.decision for decision in sent.decisions if decision.order < event.order}
        if "commit" not in told:
            what = "was rolled back" if "rollback" in told else "is not committed"
            text = f"{event.message} {what}, and {event.node} sees it at {event.queue}+{event.offset}"
            yield Violation("transactions hold", text, event.order, (event.message,), event.queue, nodes=(event.node,))
    copies: dict[tuple[str, str], list[str]] = defaultdict(list)
    for stored in evidence.stored_at_masters():
        sent = evidence.sent.get(stored.message)
        if sent and sent.begun.kind == "transactional" and stored.queue.topic == sent.begun.topic:
            copies[stored.message, stored.queue.broker].append(f"{stored.queue}+{stored.offset}")
    for (name, _), places in copies.items():
        if len(places) > 1:
            text = f"{name} was committed {len(places)} times: {', '.join(places)}"
            yield Violation("transactions hold", text, messages=(name,))


def dead_once(evidence: Evidence) -> Iterator[Violation]:
    """A message is a group's dead letter once, however often it is given up, and never before its attempts are used up.

    A sender that asked again may have stored it several times; then each of these has its letter. Brokers do not know
    of each other's letters, and a member that cannot reach the one goes to another.
    """
    letters: Counter[tuple[str, str, str]] = Counter()
    copies: Counter[str] = Counter()
    for event in evidence.stored_at_masters():
        topic = event.queue.topic
        if topic.startswith(DEAD):
            letters[topic.removeprefix(DEAD), event.message, event.queue.broker] += 1
        elif (sent := evidence.sent.get(event.message)) and sent.begun.topic == topic:
            copies[event.message] += 1
    groups = evidence.groups()
    given_up = {
        (e.group, e.message)
        for call in evidence.calls
        if not call.is_done and call.began.group in groups
        for e in call.shown
        if e.attempt >= groups[e.group].attempts_max
    }
    for (group, name, broker), count in letters.items():
        if (group, name) not in given_up:
            text = f"{name} is a dead letter of {group}, though its attempts were not used up"
            yield Violation("one dead letter", text, messages=(name,), group=group)
        elif count > max(1, copies[name]):
            text = f"{name} is a dead letter of {group} {count} times on {broker}, and was stored {copies[name]} times"
            yield Violation("one dead letter", text, messages=(name,), group=group)
