"""The senders of a run: each sends what the plan tells it to, one after the other, and notes what it is told."""

from __future__ import annotations

from skyrocketmq.client import SendResult, Transaction, TransactionProducer, TransactionState, select_by_hash
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.testing.simulation.history import (
    Decision,
    QueueId,
    SendAnswered,
    SendBegun,
    SendFailed,
    SendKind,
    TransactionDecided,
    name_of,
)
from skyrocketmq.testing.simulation.plan import Operation, SenderPlan
from skyrocketmq.testing.simulation.world import DELAY_LEVELS_S, World, names_of

__all__ = ["SENDERS", "Sender"]

SENDERS = "senders"  # the group of all of them: each answers for the transactions of the others
CHECK_S = 10.0  # how long a broker may take to ask
STATES: dict[Decision, TransactionState] = {
    "commit": TransactionState.COMMIT,
    "rollback": TransactionState.ROLLBACK,
    "unknown": TransactionState.UNKNOWN,
}


class Sender:
    """One sender over all its lives: `run` goes on where the last one was ended."""

    def __init__(self, world: World, plan: SenderPlan) -> None:
        self._world = world
        self._node = world.services[plan.node]
        self._operations = plan.operations
        self._next = 0
        self._is_done = not plan.operations

    @property
    def is_done(self) -> bool:
        return self._is_done

    async def run(self) -> None:
        world, sim = self._world, self._world.simulation
        # What was under way in the life before was never decided, and never will be.
        world.under_way -= {name for operation in self._operations for name in names_of(operation)}
        producer = TransactionProducer(SENDERS, namesrv=sim.namesrv, check=self._check, **self._node.options())
        async with producer:
            while self._next < len(self._operations):
                operation = self._operations[self._next]
                if operation.at_s > sim.now:
                    await sim.sleep(operation.at_s - sim.now)
                self._next += 1
                await self._send(producer, operation)
            self._is_done = True
            await sim.forever()  # it is still asked about transactions

    async def _send(self, producer: TransactionProducer, operation: Operation) -> None:
        names = names_of(operation)
        self._begin(operation, names)
        try:
            if operation.kind == "transactional":
                await self._send_in_transaction(producer, operation)
            elif operation.kind == "one-way":
                await producer.send_oneway(self._world.messages[operation.name][0])
            elif operation.kind == "batch":
                result = await producer.send_batch([self._world.messages[name][0] for name in names])
                self._answered(names, result)
            elif operation.kind == "keyed":
                message = self._world.messages[operation.name][0]
                self._answered(names, await producer.send(message, selector=select_by_hash, arg=operation.key))
            else:
                self._answered(names, await producer.send(self._world.messages[operation.name][0]))
        except MQError as error:
            for name in names:
                self._world.note(SendFailed(node=self._node.name, message=name, error=type(error).__name__))

    def _begin(self, operation: Operation, names: list[str]) -> None:
        kind: SendKind = "plain" if operation.kind == "keyed" else operation.kind
        delay_s = DELAY_LEVELS_S[operation.delay_level]
        if delay_s:
            self._world.expect_until(delay_s + 2.0)
        for name in names:
            self._world.note(
                SendBegun(
                    node=self._node.name,
                    message=name,
                    topic=operation.topic,
                    kind=kind,
                    content=self._world.messages[name][1],
                    key=operation.key,
                    tag=operation.tag,
                    delay_s=delay_s,
                    wait=operation.waits,
                    batch=operation.name if kind == "batch" else "",
                )
            )

    def _answered(self, names: list[str], result: SendResult, *, is_half: bool = False) -> None:
        ids = result.msg_id.split(",")
        for number, name in enumerate(names):
            self._world.note(
                SendAnswered(
                    node=self._node.name,
                    message=name,
                    status=result.status.name,
                    queue=_queue_id(result.queue),
                    offset=-1 if is_half else result.queue_offset + number,
                    message_id=ids[number] if number < len(ids) else "",
                )
            )

    # ---------------------------------------------------------------------------------------------------- transactions

    async def _send_in_transaction(self, producer: TransactionProducer, operation: Operation) -> None:
        world, name = self._world, operation.name
        has_run = False

        async def execute(transaction: Transaction, _: object) -> TransactionState:
            nonlocal has_run
            has_run = True
            self._answered([name], transaction.sent, is_half=True)
            if name in world.decided:  # a broker has asked meanwhile, and was told that nobody knows of it
                return STATES["rollback"]
            self._decide(name, operation.decision)
            return STATES[operation.decision]

        world.under_way.add(name)
        try:
            result = await producer.send_in_transaction(world.messages[name][0], execute)
        finally:
            world.under_way.discard(name)
        if not has_run:  # stored, but less safely than the broker is set up for
            self._answered([name], result.sent, is_half=True)
            self._decide(name, "rollback")
        if result.is_confirmed:
            self._note_decision(name, world.decided[name], heard=True)

    def _decide(self, name: str, decision: Decision) -> None:
        if decision != "unknown":
            self._world.decided[name] = decision
        self._world.expect_until(CHECK_S)
        self._note_decision(name, decision)

    def _note_decision(self, name: str, decision: Decision, *, asked: bool = False, heard: bool = False) -> None:
        self._world.note(
            TransactionDecided(
                node=self._node.name,
                message=name,
                decision=decision,
                asked=asked,
                heard=heard,
            )
        )

    async def _check(self, message: MessageView) -> TransactionState:
        """A broker asks how a transaction ended: what its sender has decided, or what the plan says if it has not."""
        world, name = self._world, name_of(message.body)
        operation = world.operations.get(name)
        self._world.expect_until(CHECK_S)
        if operation is None or name in world.under_way:
            return TransactionState.UNKNOWN
        if name not in world.decided:
            # Nobody has run it: a half message without a sender. Or its sender did not know.
            is_left_open = operation.decision == "unknown" and self._was_executed(name)
            world.decided[name] = operation.checked if is_left_open else "rollback"
        self._note_decision(name, world.decided[name], asked=True)
        return STATES[world.decided[name]]

    def _was_executed(self, name: str) -> bool:
        return any(event.message == name for event in self._world.history.of(TransactionDecided))


def _queue_id(queue: MessageQueue) -> QueueId:
    return QueueId(queue.topic, queue.broker_name, queue.queue_id)
