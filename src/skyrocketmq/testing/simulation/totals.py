"""What many runs add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from skyrocketmq.testing.simulation.checks import Evidence, Violation
from skyrocketmq.testing.simulation.history import History, TransactionDecided

__all__ = ["FailingSeed", "Totals", "totals_of"]


class FailingSeed(msgspec.Struct, frozen=True):
    seed: int
    check: str
    text: str
    page: str = ""  # where its story is


class Totals(msgspec.Struct):
    """Counts of runs; they add up."""

    seed: int | None = None  # of one run
    seeds: int = 0
    real_s: float = 0.0  # of the runs, not of the waiting for them
    virtual_s: float = 0.0
    events: int = 0
    sent: int = 0
    acknowledged: int = 0
    stored: int = 0
    consumed: int = 0  # pairs of message and group
    transactions: int = 0
    repeated: int = 0  # seeds that were run twice, to see that they are the same run
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    brokers: dict[str, int] = msgspec.field(default_factory=dict)  # lives, by flush type and role
    endings: dict[str, int] = msgspec.field(default_factory=dict)
    befell: dict[str, int] = msgspec.field(default_factory=dict)  # faults of masters, by flush type, role and fault
    failing: list[FailingSeed] = msgspec.field(default_factory=list)

    def add(self, other: Totals) -> None:
        for name in ("seeds", "real_s", "virtual_s", "events", "sent", "acknowledged", "stored", "consumed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.transactions += other.transactions
        self.repeated += other.repeated
        for counts, more in (
            (self.faults, other.faults),
            (self.brokers, other.brokers),
            (self.endings, other.endings),
            (self.befell, other.befell),
        ):
            for key, count in more.items():
                counts[key] = counts.get(key, 0) + count
        known = {failing.seed for failing in self.failing}
        self.failing += [failing for failing in other.failing if failing.seed not in known]

    def lines(self) -> list[str]:
        """For people."""
        speed = self.virtual_s / self.real_s if self.real_s else 0.0
        return [
            f"{self.seeds:,} seeds, {self.virtual_s:,.0f} virtual s (a core: {speed:.0f} times real time), "
            f"{self.events:,} events; {self.repeated:,} seeds were run twice and were the same",
            f"{self.sent:,} messages sent, {self.acknowledged:,} acknowledged, {self.stored:,} in queues at the end; "
            f"{self.consumed:,} consumed (message and group); {self.transactions:,} ends of transactions",
            f"faults: {_counts(self.faults)}",
            f"brokers: {_counts(self.brokers)}; their ends: {_counts(self.endings)}",
            f"of masters: {_counts(self.befell)}",
            f"violations: {len(self.failing)}",
        ]


def totals_of(history: History, violations: list[Violation], *, real_s: float) -> Totals:
    evidence = Evidence(history)
    lives = [life for lives in evidence.lives.values() for life in lives]
    return Totals(
        seed=history.seed,
        seeds=1,
        real_s=real_s,
        virtual_s=evidence.end_at,
        events=len(history),
        sent=len(evidence.sent),
        acknowledged=sum(sent.answered is not None for sent in evidence.sent.values()),
        stored=len(evidence.stored_at_masters()),
        consumed=len(evidence.done),
        transactions=sum(1 for decided in history.of(TransactionDecided) if decided.decision != "unknown"),
        faults=dict(Counter(fault.began.fault for fault in evidence.faults)),
        brokers=dict(Counter(f"{life.started.flush}/{life.started.role}" for life in lives)),
        endings=dict(Counter(life.ended.how for life in lives if life.ended)),
        befell=dict(Counter(_befell(evidence))),
        failing=[FailingSeed(history.seed, v.check, v.text) for v in violations[:1]],
    )


def _befell(evidence: Evidence) -> Iterator[str]:
    """For each fault of a master what it was told to do before it acknowledges, and the fault."""
    lives = [life for lives in evidence.lives.values() for life in lives]
    with_slave = {life.started.broker for life in lives if not life.is_master}
    for fault in evidence.faults:
        began = fault.began
        for life in lives:
            started = life.started
            if life.node == began.node and life.is_master and started.at <= began.at <= life.end_at:
                slave = started.role if started.broker in with_slave else "no slave"
                yield f"{started.flush}, {slave}: {began.fault}"
                break


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"
