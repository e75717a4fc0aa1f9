"""`run(plan)`: one run from its beginning to its end, and its history.

The cluster starts and is quiet; then everybody does what the plan says while its faults come and go; then all is
healed, started and given time to finish, and everything is looked at.
"""

from __future__ import annotations

import asyncio

from skyrocketmq.admin import Admin
from skyrocketmq.errors import MQError
from skyrocketmq.testing.simulation.actors import Actors
from skyrocketmq.testing.simulation.ending import drain, look_at_logs, watch
from skyrocketmq.testing.simulation.faults import FaultRunner
from skyrocketmq.testing.simulation.history import History, OffsetReset, TopicMade
from skyrocketmq.testing.simulation.node import ServiceNode
from skyrocketmq.testing.simulation.plan import AdminStep, ConsumerPlan, Plan
from skyrocketmq.testing.simulation.simulation import Simulation
from skyrocketmq.testing.simulation.world import World

__all__ = ["run"]

ADMIN = "admin"
STEP_S = 20.0  # what a step of an operator may take
# Brokers ask about transactions soon, and flush often enough for a run of a minute.
SETTINGS = {
    "transactionTimeOut": "2000",
    "transactionCheckInterval": "3000",
    "registerNameServerPeriod": "10000",
}


def run(plan: Plan, *, log: bool = False) -> History:
    """The history of a plan. The same plan gives the same history."""
    return Simulation(plan.seed, log=log).run(lambda simulation: _Run(plan, simulation).story())


class _Run:
    def __init__(self, plan: Plan, simulation: Simulation) -> None:
        self._plan = plan
        self._simulation = simulation
        self._world = World(plan, simulation)
        self._build()
        self._actors = Actors(self._world)

    def _build(self) -> None:
        sim, plan, world = self._simulation, self._plan, self._world
        for number in range(plan.name_server_count):
            sim.name_server(f"namesrv-{number}")
        for broker in plan.brokers:
            node = sim.broker(
                broker.node,
                brokerName=broker.broker,
                brokerId=str(broker.broker_id),
                brokerRole=broker.role,
                flushDiskType=broker.flush,
                **SETTINGS,
                **dict(broker.settings),
            )
            node.clock.set(skew_ms=broker.skew_ms, drift=broker.drift)
            node.disk.usual_s = broker.sync_s
            world.brokers[broker.node] = node
        users = [*(sender.node for sender in plan.senders), *(consumer.node for consumer in plan.consumers), ADMIN]
        for user in users:
            world.services[user] = sim.service(user)

    async def story(self) -> History:
        sim, plan, actors = self._simulation, self._plan, self._actors
        for name in [*(name for name in sim.nodes if name.startswith("namesrv")), *self._world.brokers]:
            await actors.keep_up(name)
        self._world.note_clocks()
        await self._make_topics()
        watching = asyncio.ensure_future(watch(self._world))
        faults = FaultRunner(self._world, actors)
        doings = [asyncio.ensure_future(faults.run(fault)) for fault in plan.faults]
        doings += [asyncio.ensure_future(self._start_later(consumer)) for consumer in plan.consumers]
        doings += [asyncio.ensure_future(self._administer(step)) for step in plan.admin]
        for sender in plan.senders:
            await actors.keep_up(sender.node)
        await sim.sleep(max(plan.length_s - sim.now, 0.0))
        await asyncio.gather(*doings)
        self._world.is_over = True
        await drain(self._world, actors)
        watching.cancel()
        await look_at_logs(self._world)
        return self._world.history

    async def _start_later(self, consumer: ConsumerPlan) -> None:
        await self._simulation.sleep(max(consumer.starts_at_s - self._simulation.now, 0.0))
        await self._actors.keep_up(consumer.node)

    # ----------------------------------------------------------------------------------------------------- the operator

    async def _make_topics(self) -> None:
        admin = self._world.services[ADMIN]

        async def make() -> None:
            async with Admin(namesrv=self._simulation.namesrv, **admin.options()) as client:
                for topic in self._plan.topics:
                    made = await client.topics.create(topic.name, queues=topic.queues)
                    self._world.note(
                        TopicMade(
                            node=ADMIN,
                            topic=topic.name,
                            brokers=tuple(sorted({node.broker_name for node in made})),
                            queue_count=topic.queues,
                        )
                    )
                await client.groups.create("g-unused")

        await admin.call(make())

    async def _administer(self, step: AdminStep) -> None:
        await self._simulation.sleep(max(step.at_s - self._simulation.now, 0.0))
        admin = self._world.services[ADMIN]
        if step.kind == "reset offset":
            self._world.note(OffsetReset(node=ADMIN, group=step.group, topic=step.topic))
        try:
            await admin.call(self._step(admin, step))
        except MQError:  # the cluster is in trouble: operators know that
            pass
        if step.kind == "reset offset":
            self._world.note(OffsetReset(node=ADMIN, group=step.group, topic=step.topic, done=True))

    async def _step(self, admin: ServiceNode, step: AdminStep) -> None:
        async with Admin(namesrv=self._simulation.namesrv, **admin.options()) as client:
            match step.kind:
                case "create topic":
                    await client.topics.create(step.topic, queues=2)
                case "reset offset":
                    await client.offsets.reset(step.group, step.topic, "earliest")
                case "delete group":
                    await client.groups.delete(step.group)
