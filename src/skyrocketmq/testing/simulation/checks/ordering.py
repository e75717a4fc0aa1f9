"""Order: of numbers in a queue, of what orderly consumers handle, and who may handle it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from skyrocketmq.testing.simulation.checks.evidence import DEAD, Call, Evidence
from skyrocketmq.testing.simulation.checks.keeping import wants
from skyrocketmq.testing.simulation.checks.promotions import Promotions
from skyrocketmq.testing.simulation.checks.violation import Violation
from skyrocketmq.testing.simulation.history import HandlerBegan, QueueId

__all__ = ["keys_are_in_order", "one_owner_at_a_time", "orderly_skips_nothing", "queues_are_in_order"]

# A member goes on for 30 s after it renewed its lock, and the broker gives the lock to another after 60 s: a handler
# that still runs when another member begins was begun that long before, so its own length is the cause.
LOCK_MARGIN_S = 29.0
LOCK_LIFE_S = 60.0


def queues_are_in_order(evidence: Evidence) -> Iterator[Violation]:
    """Who is answered before another one sends lies before it, if both lie in one queue."""
    promotions = Promotions(evidence)
    answers: dict[QueueId, list[tuple[int, int, str]]] = defaultdict(
        list
    )  # (order, highest offset so far, its message)
    numbered = [
        s
        for s in evidence.sent.values()
        if s.answered and s.answered.offset >= 0 and s.begun.kind in ("plain", "batch")
    ]
    numbered.sort(key=lambda s: s.answered.order if s.answered else -1)
    for sent in numbered:
        answered = sent.answered
        assert answered is not None
        if promotions.is_over(answered.queue, answered.offset, answered.order):
            continue
        before = answers[answered.queue]
        place = bisect_left(before, (sent.begun.order, -1, ""))
        if place and before[place - 1][1] >= answered.offset:
            _, offset, other = before[place - 1]
            name = answered.message
            where = f"{answered.queue}+{answered.offset}"
            text = f"{name} got {where}, although {other} had been told {offset} before {name} was sent"
            yield Violation("queues are in order", text, answered.order, (other, name), queue=answered.queue)
        highest = before[-1][1:] if before else (-1, "")
        before.append((answered.order, *max(highest, (answered.offset, answered.message))))


def keys_are_in_order(evidence: Evidence) -> Iterator[Violation]:
    """Of messages with one key an orderly group begins none before all that were acknowledged before it was sent."""
    for group, member in evidence.groups().items():
        if member.kind != "orderly":
            continue
        first_shown: dict[str, HandlerBegan] = {}
        for event in evidence.shown:
            if event.group == group:
                first_shown.setdefault(event.message, event)
        by_key: dict[str, list[str]] = defaultdict(list)
        for name, sent in evidence.sent.items():
            if sent.begun.key and sent.begun.topic in member.topics:
                by_key[sent.begun.key].append(name)
        for names in by_key.values():
            yield from _key_is_in_order(evidence, group, names, first_shown)


def _key_is_in_order(
    evidence: Evidence, group: str, names: list[str], first_shown: dict[str, HandlerBegan]
) -> Iterator[Violation]:
    latest: HandlerBegan | None = None  # of those acknowledged so far, the one that was first shown last
    for name in names:  # as they were sent
        sent, shown = evidence.sent[name], first_shown.get(name)
        if shown is None:
            continue
        if latest is not None and shown.order < latest.order and latest.queue == shown.queue:
            text = f"group {group} began {name} before {latest.message}, of the same key and answered before"
            yield Violation("keys are in order", text, shown.order, (latest.message, name), shown.queue, group)
        if sent.answered is not None and (latest is None or shown.order > latest.order):
            latest = shown


def orderly_skips_nothing(evidence: Evidence) -> Iterator[Violation]:
    """An orderly group begins a message when all before it in its queue are done."""
    promotions = Promotions(evidence)
    groups = {group: member for group, member in evidence.groups().items() if member.kind == "orderly"}
    places: dict[tuple[str, QueueId], dict[int, str]] = defaultdict(dict)
    dead: set[tuple[str, str]] = set()
    for event in evidence.stored_at_masters():
        if event.queue.topic.startswith(DEAD):
            dead.add((event.queue.topic.removeprefix(DEAD), event.message))
        for group, member in groups.items():
            if wants(evidence, member, event) and not promotions.may_be_missed(event.queue, event.offset):
                places[group, event.queue][event.offset] = event.message
    done_at: dict[tuple[str, QueueId, int], int] = {}
    for call in evidence.calls:
        if call.is_done and call.began.group in groups:
            for e in call.shown:
                place = (e.group, e.queue, e.offset)
                done_at[place] = min(done_at.get(place, 1 << 62), int(call.end_order))
    for (group, queue), messages in places.items():
        calls = [c for c in evidence.calls if c.began.group == group and c.began.queue == queue]
        yield from _skipped(group, queue, sorted(messages.items()), calls, done_at, dead)


def _skipped(
    group: str,
    queue: QueueId,
    messages: list[tuple[int, str]],
    calls: list[Call],
    done_at: dict[tuple[str, QueueId, int], int],
    dead: set[tuple[str, str]],
) -> Iterator[Violation]:
    first_open = 0  # everything before it in `messages` is done
    for call in calls:
        begin = call.began
        while first_open < len(messages) and (
            done_at.get((group, queue, messages[first_open][0]), 1 << 62) < begin.order
            or (group, messages[first_open][1]) in dead
        ):
            first_open += 1
        if first_open < len(messages) and messages[first_open][0] < begin.offset:
            offset, name = messages[first_open]
            text = f"group {group} began {begin.message} at {queue}+{begin.offset} before {name} at {offset} was done"
            yield Violation(
                "orderly skips nothing", text, begin.order, (name, begin.message), queue, group, (begin.node,)
            )
            return


def _locks_are_new(evidence: Evidence, begin: HandlerBegan) -> bool:
    """A slave does not know its master's locks: where it took over, members are alone after a minute."""
    return any(begin.at - LOCK_LIFE_S < at <= begin.at for at in evidence.promoted_at(begin.queue.broker))


def one_owner_at_a_time(evidence: Evidence) -> Iterator[Violation]:
    """Two members of an orderly group never handle one queue at once; `LOCK_MARGIN_S` tells what is not promised."""
    running: dict[tuple[str, QueueId], list[Call]] = defaultdict(list)
    for call in evidence.calls:
        begin = call.began
        if begin.kind != "orderly":
            continue
        others = running[begin.group, begin.queue]
        others[:] = [other for other in others if other.end_order > begin.order]
        for other in others:
            first = other.began
            if first.node == begin.node or begin.at - first.at >= LOCK_MARGIN_S:
                continue
            if not _locks_are_new(evidence, begin):
                text = f"{begin.node} began {begin.message} of {begin.queue} while {first.node} handled {first.message}"
                yield Violation(
                    "one owner at a time",
                    text,
                    begin.order,
                    (first.message, begin.message),
                    begin.queue,
                    begin.group,
                    (first.node, begin.node),
                )
                break
        others.append(call)
