"""A group's progress is never set back by itself."""

from __future__ import annotations

from collections.abc import Iterator

from skyrocketmq.testing.simulation.checks.evidence import Evidence
from skyrocketmq.testing.simulation.checks.violation import Violation
from skyrocketmq.testing.simulation.history import OffsetReset, OffsetSeen, QueueId

__all__ = ["progress_goes_on"]

HANDS_S = 30.0  # after this nobody speaks for a queue any more that another member has


def progress_goes_on(evidence: Evidence) -> Iterator[Violation]:
    """A committed offset that was seen is not followed by a smaller one, unless an operator reset it, its broker ended
    without saving it, a slave took over, or two members spoke for the queue: in an orderly group while it changes
    hands, in others, which have no locks, as long as they do not agree who has it.

    A reset sets each queue back once, when its member hears of it: one that is paused hears of it later.
    """
    last: dict[tuple[str, QueueId], OffsetSeen] = {}
    reset: dict[tuple[str, str], set[QueueId]] = {}  # of a group and topic: the queues that have gone back since
    for event in evidence.history:
        if isinstance(event, OffsetReset):
            reset[event.group, event.topic] = set()
        elif isinstance(event, OffsetSeen):
            before = last.get((event.group, event.queue))
            last[event.group, event.queue] = event
            if before is None or event.offset >= before.offset or _is_excused(evidence, before, event):
                continue
            gone_back = reset.get((event.group, event.queue.topic))
            if gone_back is not None and event.queue not in gone_back:
                gone_back.add(event.queue)
                continue
            text = f"{event.group} at {event.queue} went back from {before.offset} to {event.offset}"
            yield Violation("progress goes on", text, event.order, (), event.queue, event.group)


def _is_excused(evidence: Evidence, before: OffsetSeen, event: OffsetSeen) -> bool:
    """Offsets are saved every few seconds: an end without a save takes the newest."""
    lives = evidence.lives.get(event.queue.broker, [])
    ends = [life.ended for life in lives if life.is_master and life.ended is not None]
    if any(before.order < end.order < event.order and end.how != "stopped" for end in ends):
        return True
    if any(before.at - HANDS_S < at < event.at for at in evidence.promoted_at(event.queue.broker)):
        return True
    return len(_speakers(evidence, event, since=before.at - HANDS_S)) > 1


def _speakers(evidence: Evidence, event: OffsetSeen, *, since: float) -> set[str]:
    """Who may have committed an offset of the queue lately."""
    members = evidence.members.get(event.group, [])
    if members and members[0].started.kind != "orderly":
        return {
            member.started.node
            for member in members
            if member.started.order < event.order and (member.ended is None or member.ended.at > since)
        }
    return {
        shown.node
        for shown in evidence.shown
        if (shown.group, shown.queue) == (event.group, event.queue) and since < shown.at < event.at
    }
