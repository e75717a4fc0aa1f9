"""Which acknowledged messages have to be there at the end: the table of docs/guarantees.md, as a rule.

Rule 1: a message lies on the disks of some nodes. One on a node that loses power survives there if it was synced: with
SYNC_FLUSH before it was acknowledged, with ASYNC_FLUSH after the last moments. A failed sync is like a power cut that
comes with the next end of that process. A kill takes nothing, and a full disk takes nothing.
Rule 2: SEND_OK of a SYNC_MASTER means that the slave has it too, in its memory at least.
Rule 3: other answers, and senders that do not wait, get what an asynchronous disk without a slave promises.
FLUSH_SLAVE_TIMEOUT and SLAVE_NOT_AVAILABLE blame the slave only: the disk did as it was told.
Rule 4: where a slave was made the master, what it had is there, and nothing else is promised.
"""

from __future__ import annotations

from math import inf

from skyrocketmq.testing.simulation.checks.evidence import Evidence, Life, Sent
from skyrocketmq.testing.simulation.history import SendAnswered

__all__ = ["LAST_MOMENTS_S", "is_promised", "lost_its_memory", "promised_at_a_slave"]

# flushCommitLogThoroughInterval, and the time that a flush takes; a disk that was slow is reckoned in besides.
LAST_MOMENTS_S = 12.0
FAILED_SYNC = "failed sync"
SLOW_SYNC = "slow sync"
_DISK_KEPT = frozenset({"SEND_OK", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"})


def is_promised(evidence: Evidence, sent: Sent) -> bool:
    """Whether the broker's last master has to have it."""
    if sent.answered is None:
        return False
    answered = sent.answered
    final = evidence.final_masters.get(answered.queue.broker, "")
    if final in {life.node for life in _lives_that_stored(evidence, sent)}:
        return _survives_at_master(evidence, sent, answered, final)
    return _survives_at_slave(evidence, sent, answered, final)


def promised_at_a_slave(evidence: Evidence, sent: Sent) -> tuple[str, ...]:
    """The slaves that have to have it still, whatever became of the master."""
    if sent.answered is None:
        return ()
    slaves = {life.node for life in evidence.lives[sent.answered.queue.broker] if not life.is_master}
    return tuple(sorted(s for s in slaves if _survives_at_slave(evidence, sent, sent.answered, s)))


def _lives_that_stored(evidence: Evidence, sent: Sent) -> list[Life]:
    """The masters that served between the send and its answer; mostly one."""
    assert sent.answered is not None
    return [
        life
        for life in evidence.lives[sent.answered.queue.broker]
        if life.is_master and life.started.at <= sent.answered.at and life.end_at >= sent.begun.at
    ]


def _survives_at_master(evidence: Evidence, sent: Sent, answered: SendAnswered, node: str) -> bool:
    is_synced = (
        sent.begun.wait
        and answered.status in _DISK_KEPT
        and all(life.started.flush == "SYNC_FLUSH" for life in _lives_that_stored(evidence, sent))
    )
    return is_synced or _was_synced_in_time(evidence, answered, node, since=sent.begun.at)


def _survives_at_slave(evidence: Evidence, sent: Sent, answered: SendAnswered, node: str) -> bool:
    lives = _lives_that_stored(evidence, sent)
    if not (sent.begun.wait and answered.status == "SEND_OK" and lives):
        return False
    if not all(life.started.role == "SYNC_MASTER" for life in lives):
        return False
    slaves = {life.node for life in evidence.lives[answered.queue.broker] if not life.is_master}
    if slaves != {node}:  # one slave of several has it, and nobody knows which
        return False
    return _was_synced_in_time(evidence, answered, node, since=sent.begun.at)


def _was_synced_in_time(evidence: Evidence, answered: SendAnswered, node: str, *, since: float) -> bool:
    """Whether what lay in the node's memory when the answer came was on its disk before each loss of memory."""
    for life in evidence.lives[answered.queue.broker]:
        if life.node != node or life.ended is None or life.ended.at < since:
            continue
        if life.ended.how == "lost":
            return False
        failed_at = _first_trouble_of_disk(evidence, life)
        if failed_at is not None and answered.at > failed_at - LAST_MOMENTS_S:
            return False
        if lost_its_memory(evidence, life) and answered.at > life.ended.at - LAST_MOMENTS_S:
            return False
    return True


def lost_its_memory(evidence: Evidence, life: Life) -> bool:
    """Whether the power was cut at its end, or after a kill, before the next start could have synced anything."""
    if life.ended is None:
        return False
    if life.ended.how == "power cut":
        return True
    others = [other.started.at for lives in evidence.lives.values() for other in lives if other.node == life.node]
    next_start = min((at for at in others if at > life.ended.at), default=inf)
    return any(
        fault.began.fault == "power cut" and fault.began.node == life.node
        for fault in evidence.faults
        if life.ended.at <= fault.began.at <= next_start
    )


def _first_trouble_of_disk(evidence: Evidence, life: Life) -> float | None:
    """When syncs of this life began to fail or to take long; before that they came in time."""
    kinds = (FAILED_SYNC,) if life.ended and life.ended.how != "power cut" else (FAILED_SYNC, SLOW_SYNC)
    times = [
        fault.began.at
        for fault in evidence.faults
        if fault.began.node == life.node
        and fault.began.fault in kinds
        and fault.began.at <= life.end_at
        and (fault.end_at >= life.end_at - LAST_MOMENTS_S or fault.began.fault == FAILED_SYNC)
        and fault.end_at >= life.started.at
    ]
    return min(times, default=None)
