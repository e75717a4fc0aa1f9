"""What a slave that became the master did not have: numbers that may be given again.

A slave is behind by what it had not copied when its master was lost. Each queue that it has skips `SKIPPED` numbers at
least. Those behind them that only the old master had given out come a second time, and so do all of a queue that the
slave did not have. No setting forbids that: messages which the slave confirmed are not among them, and only of those is
anything promised.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from skyrocketmq.testing.simulation.checks.evidence import Evidence
from skyrocketmq.testing.simulation.history import QueueId

__all__ = ["Promotions"]

SKIPPED = 64
# Consumers may have read a little more than any event tells: what is fetched is shown later.
READ_AHEAD = 64


class Promotions:
    def __init__(self, evidence: Evidence) -> None:
        # by queue: order of the promotion, first number that may be given again, first that nobody can have seen before
        self._cuts: dict[QueueId, list[tuple[int, int, int]]] = defaultdict(list)
        self._blind: dict[str, int] = {}  # broker: order of its last promotion, where nobody noted the queues' ends
        self._noted: dict[str, int] = {}  # broker: order of its last promotion, where they were
        self._masters: dict[str, list[tuple[int, str]]] = {}  # broker: since when which node is the master
        for broker, lives in evidence.lives.items():
            masters = [life for life in lives if life.is_master]
            self._masters[broker] = [(life.started.order, life.node) for life in masters]
            promoted = [b.started for a, b in pairwise(masters) if a.node != b.node]
            noted = {ends.node for queue, all_ends in evidence.ends_at_promotion.items() for ends in all_ends}
            for started in promoted:
                (self._noted if started.node in noted else self._blind)[broker] = started.order
        seen: dict[QueueId, list[tuple[int, int]]] = defaultdict(list)
        for event in evidence.shown:
            seen[event.queue].append((event.order, event.offset))
        for sent in evidence.sent.values():
            if sent.answered is not None:
                seen[sent.answered.queue].append((sent.answered.order, sent.answered.offset))
        self._highest = {
            queue: max((offset for order, offset in places if order < self._noted.get(queue.broker, -1)), default=-1)
            for queue, places in seen.items()
        }
        for queue, all_ends in evidence.ends_at_promotion.items():
            for ends in all_ends:
                highest = max((offset for order, offset in seen[queue] if order < ends.order), default=-1)
                again = ends.end + SKIPPED if ends.end else 0
                self._cuts[queue].append((ends.order, again, highest + 1 + READ_AHEAD))

    def is_over(self, queue: QueueId, offset: int, order: int, *, stored_by: str = "") -> bool:
        """Whether what was seen there then was on the old master only.

        A consumer may show what it has fetched of a lost master long after: then it counts who had stored it.
        """
        if (lost_at := self._lost_at(queue.broker, stored_by, order)) is not None:
            order = min(order, lost_at)
        if order < self._blind.get(queue.broker, -1):
            return True
        if queue not in self._cuts:  # the slave did not have the queue at all
            return order < self._noted.get(queue.broker, -1)
        return any(order < at and offset >= end for at, end, _ in self._cuts[queue])

    def _lost_at(self, broker: str, node: str, order: int) -> int | None:
        """When the node that was the master once was so for the last time, if another one is the master then."""
        reigns = [reign for reign in self._masters.get(broker, ()) if reign[0] < order]
        if not reigns or reigns[-1][1] == node:
            return None
        return max((since for since, master in reigns if master == node), default=None)

    def may_be_missed(self, queue: QueueId, offset: int) -> bool:
        """Whether consumers may have passed that number before, with another message."""
        if queue.broker in self._blind:
            return True
        if queue not in self._cuts:
            return queue.broker in self._noted and offset < self._highest.get(queue, -1) + 1 + READ_AHEAD
        return any(end <= offset < unseen for _, end, unseen in self._cuts[queue])
