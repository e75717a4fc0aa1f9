"""Histories written by hand: short lines in, the events of a run out."""

from __future__ import annotations

from skyrocketmq.testing.simulation.checks import check
from skyrocketmq.testing.simulation.history import (
    AnyEvent,
    BrokerEnded,
    BrokerStarted,
    ClockMoved,
    ConsumerEnded,
    ConsumerKind,
    ConsumerStarted,
    Decision,
    Ending,
    FaultBegan,
    FaultHealed,
    HandlerBegan,
    HandlerEnded,
    History,
    LogDigested,
    OffsetSeen,
    Outcome,
    QueueId,
    RunEnded,
    SendAnswered,
    SendBegun,
    SendKind,
    StoredSeen,
    TransactionDecided,
)

Q = QueueId("T", "a", 0)
RETRY_Q = QueueId("%RETRY%g", "a", 0)
DEAD_Q = QueueId("%DLQ%g", "a", 0)
Z = QueueId("Z", "z", 0)
QUEUE_OF_OTHERS = QueueId("T", "a", 1)


class Story:
    """Time moves by a millisecond with each event, and by as much as it is told to with `wait`."""

    def __init__(
        self, *, flush: str = "SYNC_FLUSH", role: str = "ASYNC_MASTER", slave: bool = False, others: bool = True
    ) -> None:
        """`others` are on another broker with groups and messages of their own, with whom all is well."""
        self.now = 0.0
        self.history = History(1, lambda: self.now)
        self.calls = 0
        if others:
            self._tell_of_others()
        self.begin_broker("m", flush=flush, role=role)
        if slave:
            self.begin_broker("s", flush="ASYNC_FLUSH", role="SLAVE", broker_id=1)

    def _tell_of_others(self) -> None:
        kinds: tuple[ConsumerKind, ...] = ("concurrent", "orderly", "broadcast")
        retry, dead, queue = QueueId("%RETRY%z-concurrent", "z", 0), QueueId("%DLQ%z-concurrent", "z", 0), Z
        self.note(BrokerStarted("z", 0, "ASYNC_MASTER", "ASYNC_FLUSH", node="zm"), ClockMoved(5, node="zm"))
        self.note(
            LogDigested("z", "ASYNC_MASTER", 0, 9, "z", node="zm"), LogDigested("z", "SLAVE", 0, 9, "z", node="zs")
        )
        for kind in kinds:
            self.note(ConsumerStarted(f"z-{kind}", kind, ("Z",), (), 1, node=f"z-{kind}"))
            self.note(OffsetSeen(f"z-{kind}", queue, 0, node="zm"))
        self.begin_send("z-lost", topic="Z").begin_send("z-never", topic="Z", kind="transactional")
        sends: tuple[tuple[str, SendKind], ...] = (("z0", "plain"), ("z1", "delayed"), ("z2", "transactional"))
        for offset, (name, send) in enumerate(sends):
            delay_s = 1.0 if send == "delayed" else 0.0
            self.begin_send(name, kind=send, topic="Z", key="zk", delay_s=delay_s).answer(name, offset, queue=queue)
            if send == "transactional":
                self.decide(name, "commit")
            self.wait(delay_s).store(name, offset, queue=queue, node="zm")
            for kind in kinds:
                who = f"z-{kind}"
                if name == "z0" and kind == "concurrent":
                    self.consume(name, offset, "retry", kind=kind, queue=queue, node=who, group=who)
                    self.consume(name, 0, "error", kind=kind, queue=retry, attempt=1, node=who, group=who)
                    self.store(name, 0, queue=dead, node="zm")
                else:
                    self.consume(name, offset, kind=kind, queue=queue, node=who, group=who)
        self.end_broker("killed", "zm", "z").note(BrokerStarted("z", 0, "ASYNC_MASTER", "ASYNC_FLUSH", node="zm"))

    def note(self, *events: AnyEvent) -> Story:
        for event in events:
            self.now += 0.001
            self.history.add(event)
        return self

    def wait(self, seconds: float) -> Story:
        self.now += seconds
        return self

    def begin_broker(
        self, node: str = "m", *, flush: str = "SYNC_FLUSH", role: str = "ASYNC_MASTER", broker_id: int = 0
    ) -> Story:
        return self.note(BrokerStarted("a", broker_id, role, flush, node=node))

    def end_broker(self, how: Ending, node: str = "m", broker: str = "a") -> Story:
        return self.note(BrokerEnded(broker, how, node=node))

    def begin_member(
        self,
        node: str = "c1",
        group: str = "g",
        kind: ConsumerKind = "concurrent",
        *,
        tags: tuple[str, ...] = (),
        attempts_max: int = 16,
        session: str = "",
    ) -> Story:
        return self.note(ConsumerStarted(group, kind, ("T",), tags, attempts_max, session, node=node))

    def end_member(self, how: Ending, node: str = "c1", group: str = "g") -> Story:
        return self.note(ConsumerEnded(group, how, node=node))

    def fault(self, fault: str, node: str = "m", *, number: int = 0, lasting_s: float | None = 0.0) -> Story:
        self.note(FaultBegan(number, fault, node=node))
        return self if lasting_s is None else self.wait(lasting_s).note(FaultHealed(number, fault, node=node))

    def begin_send(
        self,
        message: str,
        *,
        kind: SendKind = "plain",
        key: str = "",
        tag: str = "",
        delay_s: float = 0.0,
        wait: bool = True,
        topic: str = "T",
    ) -> Story:
        return self.note(SendBegun(message, topic, kind, content(message), key, tag, delay_s, wait, node="p"))

    def answer(self, message: str, offset: int, status: str = "SEND_OK", queue: QueueId = Q) -> Story:
        return self.note(SendAnswered(message, status, queue, offset, node="p"))

    def send(self, message: str, offset: int, status: str = "SEND_OK", *, wait: bool = True, key: str = "") -> Story:
        return self.begin_send(message, wait=wait, key=key).answer(message, offset, status)

    def decide(self, message: str, decision: Decision, *, heard: bool = True, asked: bool = False) -> Story:
        return self.note(TransactionDecided(message, decision, asked, heard, node="p"))

    def show(
        self,
        message: str,
        offset: int,
        *,
        node: str = "c1",
        group: str = "g",
        kind: ConsumerKind = "concurrent",
        attempt: int = 0,
        queue: QueueId = Q,
        text: str = "",
        stored_by: str = "",
    ) -> int:
        """Begin a call; returns its number, for `finish`."""
        self.calls += 1
        words = text or content(message)
        self.note(HandlerBegan(group, kind, queue, offset, message, words, attempt, self.calls, stored_by, node=node))
        return self.calls

    def finish(
        self, call: int, outcome: Outcome = "done", *, node: str = "c1", group: str = "g", delay_s: float = 0.0
    ) -> Story:
        return self.note(HandlerEnded(group, call, outcome, delay_s, node=node))

    def consume(
        self,
        message: str,
        offset: int,
        outcome: Outcome = "done",
        *,
        node: str = "c1",
        group: str = "g",
        kind: ConsumerKind = "concurrent",
        attempt: int = 0,
        queue: QueueId = Q,
        delay_s: float = 0.0,
        stored_by: str = "",
    ) -> Story:
        call = self.show(
            message, offset, node=node, group=group, kind=kind, attempt=attempt, queue=queue, stored_by=stored_by
        )
        return self.finish(call, outcome, node=node, group=group, delay_s=delay_s)

    def store(self, message: str, offset: int, *, queue: QueueId = Q, node: str = "m", text: str = "") -> Story:
        return self.note(StoredSeen(queue, offset, message, text or content(message), node=node))

    def end(self, *, settled: bool = True) -> Story:
        return self.note(RunEnded(settled, node=""))

    def found(self) -> set[str]:
        """The promises that this run has broken."""
        return {violation.check for violation in check(self.history)}


def content(message: str) -> str:
    return f"content of {message}"
