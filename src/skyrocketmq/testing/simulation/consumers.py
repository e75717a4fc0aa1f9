"""The consumers of a run: every kind, each noting what it is shown and what it made of it."""

from __future__ import annotations

from itertools import count
from typing import assert_never

from skyrocketmq.client import ConsumeResult, LitePullConsumer, PullConsumer, PushConsumer
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.testing.simulation.history import (
    ConsumerStarted,
    HandlerBegan,
    HandlerEnded,
    Outcome,
    QueueId,
    content_of,
    name_of,
)
from skyrocketmq.testing.simulation.node import ROOT
from skyrocketmq.testing.simulation.plan import ConsumerPlan, Operation
from skyrocketmq.testing.simulation.world import DELAY_LEVELS_S, World

__all__ = ["Consumer"]

FIRST_RETRY_LEVEL = 3  # of a message that is handed back without one: 10 s, then more
POLL_S = 1.0
PAUSE_S = 0.5


class HandlerFailed(Exception):
    """Raised by a handler because the plan says so."""


class Consumer:
    """One consumer over all its lives."""

    def __init__(self, world: World, plan: ConsumerPlan) -> None:
        self._world = world
        self._plan = plan
        self._node = world.services[plan.node]
        self._calls = count()

    async def run(self) -> None:
        match self._plan.kind:
            case "concurrent" | "orderly" | "broadcast":
                await self._push()
            case "lite":
                await self._poll()
            case "pull":
                await self._pull()
            case never:
                assert_never(never)

    def _started(self) -> None:
        plan = self._plan
        self._world.note(
            ConsumerStarted(
                node=plan.node,
                group=plan.group,
                kind=plan.kind,
                topics=plan.topics,
                tags=(plan.tag,) if plan.tag else (),
                attempts_max=plan.retry_count_max,
                session=plan.node if plan.kind == "broadcast" else "",
            )
        )

    async def _push(self) -> None:
        plan, sim = self._plan, self._world.simulation
        options = self._node.options()
        if plan.kind == "broadcast":
            options["instance_name"] = plan.node  # its progress is stored under its name
        consumer = PushConsumer(
            plan.group,
            namesrv=sim.namesrv,
            consume_from="first",
            orderly=plan.kind == "orderly",
            broadcasting=plan.kind == "broadcast",
            retry_count_max=plan.retry_count_max,
            offsets_directory=ROOT / "offsets",
            disk=self._node.disk,
            **options,
        )
        for topic in plan.topics:
            consumer.subscribe(topic, plan.tag or "*", self._handle)
        self._started()
        async with consumer:
            await sim.forever()

    async def _handle(self, message: MessageView) -> ConsumeResult:
        operation = self._world.operations.get(name_of(message.body))
        call = next(self._calls)
        self._began(call, message)
        if operation is None:
            self._ended(call, "done")
            return ConsumeResult.SUCCESS
        if operation.handled_s:
            self._world.expect_until(operation.handled_s + 1.0)
            await self._world.simulation.sleep(operation.handled_s)
        # A broadcast message does not come again, whatever its handler says.
        if self._plan.kind == "broadcast" or message.reconsume_times >= operation.failure_count:
            self._ended(call, "done")
            return ConsumeResult.SUCCESS
        return self._fail(call, message, operation)

    def _fail(self, call: int, message: MessageView, operation: Operation) -> ConsumeResult:
        if self._plan.kind == "orderly":
            self._ended(call, "retry")
            return ConsumeResult.retry(pause_s=PAUSE_S)
        level = 0 if operation.raises else operation.retry_level
        delay_s = DELAY_LEVELS_S[level or min(FIRST_RETRY_LEVEL + message.reconsume_times, len(DELAY_LEVELS_S) - 1)]
        self._world.expect_until(delay_s + 3.0)
        self._ended(call, "error" if operation.raises else "retry", delay_s=delay_s)
        if operation.raises:
            raise HandlerFailed(operation.name)
        return ConsumeResult.retry(delay_level=level)

    async def _poll(self) -> None:
        plan, sim = self._plan, self._world.simulation
        consumer = LitePullConsumer(
            plan.group,
            namesrv=sim.namesrv,
            consume_from="first",
            offsets_directory=ROOT / "offsets",
            disk=self._node.disk,
            **self._node.options(),
        )
        for topic in plan.topics:
            consumer.subscribe(topic)
        self._started()
        async with consumer:
            while True:
                for message in await consumer.poll(POLL_S):
                    self._consume(message)

    async def _pull(self) -> None:
        """One consumer that reads all queues by hand and commits after each pull."""
        plan, sim = self._plan, self._world.simulation
        self._started()
        async with PullConsumer(plan.group, namesrv=sim.namesrv, **self._node.options()) as consumer:
            places: dict[MessageQueue, int] = {}
            while True:
                await sim.sleep(PAUSE_S)
                for topic in plan.topics:
                    try:
                        for queue in await consumer.queues(topic):
                            await self._pull_queue(consumer, queue, places)
                    except MQError:  # tried again soon
                        await sim.sleep(PAUSE_S)

    async def _pull_queue(self, consumer: PullConsumer, queue: MessageQueue, places: dict[MessageQueue, int]) -> None:
        if queue not in places:
            places[queue] = await consumer.committed(queue) or 0
        pulled = await consumer.pull(queue, places[queue])
        for message in pulled.messages:
            self._consume(message)
        if pulled.next_offset != places[queue]:
            places[queue] = pulled.next_offset
            await consumer.commit(queue, pulled.next_offset)

    def _consume(self, message: MessageView) -> None:
        call = next(self._calls)
        self._began(call, message)
        self._ended(call, "done")

    def _began(self, call: int, message: MessageView) -> None:
        queue = message.queue
        self._world.note(
            HandlerBegan(
                node=self._plan.node,
                group=self._plan.group,
                kind=self._plan.kind,
                queue=QueueId(queue.topic, queue.broker_name, queue.queue_id),
                offset=message.queue_offset,
                message=name_of(message.body),
                content=content_of(message.body, message.properties),
                attempt=message.reconsume_times,
                call=call,
                stored_by=self._world.node_at(message.store_host),
            )
        )

    def _ended(self, call: int, outcome: Outcome, *, delay_s: float = 0.0) -> None:
        self._world.note(
            HandlerEnded(node=self._plan.node, group=self._plan.group, call=call, outcome=outcome, delay_s=delay_s)
        )
