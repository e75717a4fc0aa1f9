"""A history, sorted for the checks: who sent what, who was shown what, what lies where, how a broker's life ended.

Everything is found in one walk over the events; nothing is judged here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from skyrocketmq.testing.simulation.history import (
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
    QueueEnds,
    QueueId,
    RunEnded,
    SendAnswered,
    SendBegun,
    StoredSeen,
    TransactionDecided,
)

__all__ = ["DEAD", "RETRY", "Call", "Evidence", "Fault", "Life", "Member", "Sent"]

RETRY = "%RETRY%"
DEAD = "%DLQ%"


@dataclass(slots=True)
class Sent:
    """A message of the workload, from the side of its sender."""

    begun: SendBegun
    answered: SendAnswered | None = None
    decisions: list[TransactionDecided] = field(default_factory=list)


@dataclass(slots=True)
class Life:
    """A broker from a start to the end of its process."""

    started: BrokerStarted
    ended: BrokerEnded | None = None

    @property
    def node(self) -> str:
        return self.started.node

    @property
    def is_master(self) -> bool:
        return self.started.broker_id == 0

    @property
    def end_at(self) -> float:
        return self.ended.at if self.ended else inf


@dataclass(slots=True)
class Member:
    """A consumer from its start to its end."""

    started: ConsumerStarted
    ended: ConsumerEnded | None = None


@dataclass(slots=True)
class Fault:
    began: FaultBegan
    healed: FaultHealed | None = None

    @property
    def end_at(self) -> float:
        return self.healed.at if self.healed else inf


@dataclass(slots=True)
class Call:
    """One run of a handler; `shown` are the messages that it was given."""

    shown: list[HandlerBegan]
    ended: HandlerEnded | None = None
    end_order: float = inf  # of its end, or of its node's
    end_at: float = inf

    @property
    def is_done(self) -> bool:
        return self.ended is not None and self.ended.outcome == "done"

    @property
    def began(self) -> HandlerBegan:
        return self.shown[0]


class Evidence:
    """What the checks ask for. Lists are in the true order of the run."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sent: dict[str, Sent] = {}
        self.shown: list[HandlerBegan] = []
        self.calls: list[Call] = []
        self.stored: list[StoredSeen] = []  # as seen after all has healed
        self.lives: dict[str, list[Life]] = defaultdict(list)  # by the broker's name
        self.members: dict[str, list[Member]] = defaultdict(list)  # by group
        self.faults: list[Fault] = []
        self.clock_moves: list[ClockMoved] = []
        self.ends_at_promotion: dict[QueueId, list[QueueEnds]] = defaultdict(list)
        self.end: RunEnded | None = None
        self._open_calls: dict[tuple[str, str, int], Call] = {}
        for event in history:
            self._take(event)
        self.end_at = history.events[-1].at if history.events else 0.0
        self.done = {(e.group, e.message) for call in self.calls if call.is_done for e in call.shown}
        self.final_masters = {
            broker: next((life.node for life in reversed(lives) if life.is_master), "")
            for broker, lives in self.lives.items()
        }

    @property
    def is_settled(self) -> bool:
        return self.end is not None and self.end.settled

    def stored_at_masters(self) -> list[StoredSeen]:
        """What readers find in the queues at the end: those of each broker's last master."""
        return [e for e in self.stored if e.node == self.final_masters.get(e.queue.broker)]

    def promoted_at(self, broker: str) -> list[float]:
        """When another node became the master."""
        masters = [life for life in self.lives.get(broker, ()) if life.is_master]
        return [after.started.at for before, after in pairwise(masters) if after.node != before.node]

    def groups(self) -> dict[str, ConsumerStarted]:
        """Each group, by the first of its members: all are alike."""
        return {group: members[0].started for group, members in self.members.items()}

    def _take(
        self, event: object
    ) -> None:  # one branch for each kind: a table of methods would say the same in more lines
        match event:
            case SendBegun():
                self.sent.setdefault(event.message, Sent(event))
            case SendAnswered():
                if (sent := self.sent.get(event.message)) and sent.answered is None:
                    sent.answered = event
            case TransactionDecided():
                if sent := self.sent.get(event.message):
                    sent.decisions.append(event)
            case HandlerBegan():
                self._take_shown(event)
            case HandlerEnded():
                if call := self._open_calls.pop((event.node, event.group, event.call), None):
                    call.ended, call.end_order, call.end_at = event, event.order, event.at
            case StoredSeen() if event.final:
                self.stored.append(event)
            case QueueEnds() if not event.final:
                self.ends_at_promotion[event.queue].append(event)
            case BrokerStarted():
                self.lives[event.broker].append(Life(event))
            case BrokerEnded():
                for life in self.lives[event.broker]:
                    if life.node == event.node and life.ended is None:
                        life.ended = event
            case ConsumerStarted():
                self.members[event.group].append(Member(event))
            case ConsumerEnded():
                self._take_members_end(event)
            case FaultBegan():
                self.faults.append(Fault(event))
            case FaultHealed():
                for fault in self.faults:
                    if fault.began.number == event.number and fault.healed is None:
                        fault.healed = event
            case ClockMoved():
                self.clock_moves.append(event)
            case RunEnded():
                self.end = event
            case _:
                pass

    def _take_shown(self, event: HandlerBegan) -> None:
        self.shown.append(event)
        key = (event.node, event.group, event.call)
        if call := self._open_calls.get(key):
            call.shown.append(event)
        else:
            self._open_calls[key] = call = Call([event])
            self.calls.append(call)

    def _take_members_end(self, event: ConsumerEnded) -> None:
        """A process that has ended handles nothing more; one that was told to stop may finish what runs."""
        for member in self.members[event.group]:
            if member.started.node == event.node and member.ended is None:
                member.ended = event
        if event.how == "stopped":
            return
        for key in [key for key in self._open_calls if key[:2] == (event.node, event.group)]:
            call = self._open_calls.pop(key)
            call.end_order, call.end_at = event.order, event.at
