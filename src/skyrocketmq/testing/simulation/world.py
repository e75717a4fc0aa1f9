"""What the actors of one run share: its simulation, its history, and what is known of each message."""

from __future__ import annotations

from skyrocketmq.model import Message
from skyrocketmq.testing.simulation.history import AnyEvent, ClockMoved, Decision, History, content_of, make_body
from skyrocketmq.testing.simulation.node import BrokerNode, ServiceNode
from skyrocketmq.testing.simulation.plan import Operation, Plan
from skyrocketmq.testing.simulation.simulation import Simulation

__all__ = ["DELAY_LEVELS_S", "World"]

DELAY_LEVELS_S = (0.0, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0)  # by level, as far as a run uses them


class World:
    """`note` writes the history; the rest is looked up by actors."""

    def __init__(self, plan: Plan, simulation: Simulation) -> None:
        self.plan = plan
        self.simulation = simulation
        self.history = History(plan.seed, simulation.loop.time)
        self.note = self.history.add
        self.brokers: dict[str, BrokerNode] = {}
        self.services: dict[str, ServiceNode] = {}
        self.operations: dict[str, Operation] = {}  # by the names of their messages
        self.messages: dict[str, tuple[Message, str]] = {}  # by name, with its content
        for sender in plan.senders:
            for operation in sender.operations:
                for name in names_of(operation):
                    self.operations[name] = operation
                    message = make_message(operation, name)
                    self.messages[name] = message, content_of(message.body, message.all_properties())
        self.under_way: set[str] = set()  # transactions whose sender has not heard of the half message yet
        self.decided: dict[str, Decision] = {}  # transactions that were decided by their sender
        self.busy_until = 0.0  # something is known to come by then: retries, delays, checks
        self._aheads_ms: dict[str, int] = {}
        self.is_over = False  # the senders' time is

    def expect_until(self, seconds: float) -> None:
        """The run is not at rest before that time from now has passed."""
        self.busy_until = max(self.busy_until, self.simulation.now + seconds)

    def add(self, *events: AnyEvent) -> None:
        for event in events:
            self.note(event)

    def note_clocks(self) -> None:
        """Tell which clocks are wrong by something else than before: drift counts as many small jumps."""
        for name, node in self.brokers.items():
            ahead_ms = node.clock.ahead_ms
            if ahead_ms != self._aheads_ms.get(name, 0):
                self._aheads_ms[name] = ahead_ms
                self.note(ClockMoved(node=name, skew_ms=ahead_ms))

    def node_at(self, host: str) -> str:
        """The broker that has this address."""
        address = host.rpartition(":")[0]
        return next((name for name, node in self.brokers.items() if node.link.address == address), "")

    def masters(self) -> list[BrokerNode]:
        """Those that serve now."""
        return [node for node in self.brokers.values() if node.broker_id == 0 and node.server is not None]


def names_of(operation: Operation) -> list[str]:
    """The messages of an operation."""
    if operation.kind != "batch":
        return [operation.name]
    return [f"{operation.name}/{number}" for number in range(operation.batch_count)]


def make_message(operation: Operation, name: str) -> Message:
    filling = (name.encode() * (operation.filling_bytes // len(name) + 1))[: operation.filling_bytes]
    return Message(
        operation.topic,
        make_body(name, filling),
        tags=operation.tag or None,
        keys=[name],
        properties={"simName": name},
        delay_level=operation.delay_level,
        wait_for_store=operation.waits,
    )
