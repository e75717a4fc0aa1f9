"""Nothing acknowledged is lost, and what is kept reaches every group."""

from __future__ import annotations

from collections.abc import Iterator

from skyrocketmq.testing.simulation.checks.evidence import DEAD, RETRY, Evidence, Sent
from skyrocketmq.testing.simulation.checks.promises import (
    LAST_MOMENTS_S,
    is_promised,
    lost_its_memory,
    promised_at_a_slave,
)
from skyrocketmq.testing.simulation.checks.promotions import Promotions
from skyrocketmq.testing.simulation.checks.violation import Violation
from skyrocketmq.testing.simulation.history import ConsumerStarted, StoredSeen

__all__ = ["acknowledged_is_stored", "all_is_settled", "broadcast_sees_all", "stored_is_consumed"]

# A delayed message comes a moment after its time, and its level may have to be read again after a start.
DELAY_SLACK_S = 10.0


def all_is_settled(evidence: Evidence) -> Iterator[Violation]:
    """After the faults have healed, the cluster comes to rest by itself."""
    if not evidence.is_settled:
        why = evidence.end.why if evidence.end else "the run has no end"
        yield Violation("settles", f"not at rest after all faults had healed: {why}")


def acknowledged_is_stored(evidence: Evidence) -> Iterator[Violation]:
    """What a sender was told to be stored is stored, in the class that the settings and the faults leave."""
    if not evidence.is_settled:
        return
    stored = {(event.message, event.queue.topic) for event in evidence.stored_at_masters()}
    for name, sent in evidence.sent.items():
        begun, answered = sent.begun, sent.answered
        if answered is None or (name, begun.topic) in stored or not _is_due(evidence, sent):
            continue
        where = "" if is_promised(evidence, sent) else _slave_without_it(evidence, sent)
        if where is not None:
            place = f"{answered.queue}+{answered.offset}"
            text = f"{name} was answered {answered.status} at {place} and is not stored{where}"
            yield Violation(
                "acknowledged is stored", text, messages=(name,), queue=answered.queue, nodes=(answered.node,)
            )


def stored_is_consumed(evidence: Evidence) -> Iterator[Violation]:
    """Every message that lies in a queue was handled by every group that subscribes to it, or is its dead letter."""
    if not evidence.is_settled:
        return
    promotions = Promotions(evidence)
    at_masters = evidence.stored_at_masters()
    dead = {(e.queue.topic.removeprefix(DEAD), e.message) for e in at_masters if e.queue.topic.startswith(DEAD)}
    # Retries at numbers that the group may have passed with others, as it may have passed messages.
    passed = {
        (e.queue.topic.removeprefix(RETRY), e.message)
        for e in at_masters
        if e.queue.topic.startswith(RETRY) and promotions.may_be_missed(e.queue, e.offset)
    }
    for group, member in evidence.groups().items():
        if member.kind == "broadcast":
            continue
        for event in at_masters:
            pair = (group, event.message)
            if not wants(evidence, member, event) or pair in evidence.done or pair in dead or pair in passed:
                continue
            if promotions.may_be_missed(event.queue, event.offset) or _retry_may_be_lost(evidence, *pair):
                continue
            text = f"{event.message} lies at {event.queue}+{event.offset}, and group {group} has not handled it"
            yield Violation("stored is consumed", text, messages=(event.message,), queue=event.queue, group=group)


def _retry_may_be_lost(evidence: Evidence, group: str, message: str) -> bool:
    """Whether the group handed it back in the last moments of a broker that flushes later and lost power: the copy for
    the retry is as safe as a message that is sent, and may lie on any broker."""
    cuts = [
        life.end_at
        for lives in evidence.lives.values()
        for life in lives
        if life.started.flush == "ASYNC_FLUSH" and lost_its_memory(evidence, life)
    ]
    return any(
        call.ended is not None and not call.is_done and call.end_at <= cut < call.end_at + LAST_MOMENTS_S
        for call in evidence.calls
        if call.began.group == group and message in {shown.message for shown in call.shown}
        for cut in cuts
    )


def broadcast_sees_all(evidence: Evidence) -> Iterator[Violation]:
    """Each member of a broadcast group that is there at the end has handled everything, over all its lives."""
    if not evidence.is_settled:
        return
    promotions = Promotions(evidence)
    for group, members in evidence.members.items():
        if members[0].started.kind != "broadcast":
            continue
        sessions: dict[str, set[str]] = {}
        for member in members:
            sessions.setdefault(member.started.session or member.started.node, set()).add(member.started.node)
        living = {m.started.session or m.started.node for m in members if m.ended is None}
        for session in sorted(living):
            nodes = sessions[session]
            seen = {
                e.message
                for c in evidence.calls
                if c.is_done and c.began.group == group
                for e in c.shown
                if e.node in nodes
            }
            for event in evidence.stored_at_masters():
                if not wants(evidence, members[0].started, event) or event.message in seen:
                    continue
                if promotions.may_be_missed(event.queue, event.offset):
                    continue
                text = f"{event.message} lies at {event.queue}+{event.offset}, and {session} of {group} never saw it"
                yield Violation(
                    "broadcast sees all",
                    text,
                    messages=(event.message,),
                    queue=event.queue,
                    group=group,
                    nodes=tuple(sorted(nodes)),
                )


def wants(evidence: Evidence, member: ConsumerStarted, event: StoredSeen) -> bool:
    if event.queue.topic not in member.topics:
        return False
    sent = evidence.sent.get(event.message)
    return not member.tags or (sent is not None and sent.begun.tag in member.tags)


def _slave_without_it(evidence: Evidence, sent: Sent) -> str | None:
    """Words about a slave that was read, has to have it still, and does not; None if there is none."""
    for node in promised_at_a_slave(evidence, sent):
        seen = {event.message for event in evidence.stored if event.node == node}
        if seen and sent.begun.message not in seen:
            return f", neither at its master nor at {node}"
    return None


def _is_due(evidence: Evidence, sent: Sent) -> bool:
    """Whether it should be readable by now: a delay must be over, and a transaction committed and confirmed."""
    if sent.begun.kind == "transactional":
        return any(decision.decision == "commit" and decision.heard for decision in sent.decisions)
    assert sent.answered is not None
    return sent.answered.at + sent.begun.delay_s + DELAY_SLACK_S < evidence.end_at or not sent.begun.delay_s
