"""The faults of a plan, each begun and healed at its time."""

from __future__ import annotations

from skyrocketmq.testing.simulation.actors import Actors
from skyrocketmq.testing.simulation.history import BrokerEnded, FaultBegan, FaultHealed
from skyrocketmq.testing.simulation.plan import Fault
from skyrocketmq.testing.simulation.world import World

__all__ = ["FaultRunner"]

LITTLE_BYTES = 20_000  # what a disk that is nearly full still takes


class FaultRunner:
    """Runs faults side by side: `run` takes one from its beginning to its end."""

    def __init__(self, world: World, actors: Actors) -> None:
        self._world = world
        self._actors = actors

    async def run(self, fault: Fault) -> None:
        sim = self._world.simulation
        await sim.sleep(max(fault.at_s - sim.now, 0.0))
        if fault.node not in sim.nodes or fault.node in self._actors.lost:
            return
        detail = f"{fault.other} {fault.amount or ''} {fault.lasts_s or ''}".strip()
        self._world.note(FaultBegan(node=fault.node, number=fault.number, fault=fault.kind, detail=detail))
        await self._befall(fault)
        self._world.note(FaultHealed(node=fault.node, number=fault.number, fault=fault.kind))

    async def _befall(self, fault: Fault) -> None:
        match fault.kind:
            case "kill" | "power cut" | "stop" | "promotion":
                await self._end_and_start(fault)
            case "pause":
                await self._pause(fault)
            case "partition" | "one-way cut" | "slow link" | "reset":
                await self._trouble_the_net(fault)
            case "slow sync" | "failed sync" | "failed write" | "disk full":
                await self._trouble_the_disk(fault)
            case "clock jump":
                self._world.simulation.nodes[fault.node].clock.jump(fault.amount)
                self._world.note_clocks()

    async def _end_and_start(self, fault: Fault) -> None:
        actors, sim, name = self._actors, self._world.simulation, fault.node
        was_wanted = name in actors.wanted
        match fault.kind:
            case "kill":
                actors.kill(name)
            case "stop":
                await actors.stop(name)
            case "power cut":
                actors.cut_power(name, fault.choice)
            case _ if fault.returns:
                actors.cut_power(name, fault.choice)
                self._world.brokers[name].demote()  # at once: another fault's end may start it before its successor
            case _:
                self._lose(name, fault)
        await sim.sleep(fault.lasts_s)
        if fault.kind == "promotion":
            await actors.promote(fault.other)
            if fault.returns:
                await actors.keep_up(name)
        elif was_wanted:
            await actors.keep_up(name)

    def _lose(self, name: str, fault: Fault) -> None:
        """The master's machine is gone for good."""
        node = self._world.brokers[name]
        if node.is_running:
            self._actors.cut_power(name, fault.choice, how="lost")
        else:
            self._world.note(BrokerEnded(node=name, broker=node.broker_name, how="lost"))
        self._actors.lost.add(name)
        self._actors.wanted.pop(name, None)

    async def _pause(self, fault: Fault) -> None:
        node = self._world.simulation.nodes[fault.node]
        process = node.process
        if process is not None:
            process.pause()
            await self._world.simulation.sleep(fault.lasts_s)
            process.resume()

    async def _trouble_the_net(self, fault: Fault) -> None:
        net, one, other = self._world.simulation.net, fault.node, fault.other
        if fault.kind == "reset":
            net.reset(one, other)
            return
        ways = [(one, other)] if fault.kind == "one-way cut" else [(one, other), (other, one)]
        for way in ways:
            if fault.kind == "slow link":
                net.slow(*way, fault.amount)
            else:
                net.cut(*way)
        await self._world.simulation.sleep(fault.lasts_s)
        for way in ways:
            if fault.kind == "slow link":
                net.slow(*way, 0.0)
            else:
                net.heal(*way)

    async def _trouble_the_disk(self, fault: Fault) -> None:
        """What befalls a disk goes with it: a power cut in between gives the node another one, which is sound."""
        node = self._world.simulation.nodes[fault.node]
        disk = node.disk
        match fault.kind:
            case "slow sync":
                disk.slow_s = fault.amount
            case "failed sync":
                disk.fail("fdatasync", path="*commitlog*")
            case "failed write":
                disk.fail("pwrite", path="*commitlog*")
            case _:
                disk.fill(LITTLE_BYTES)
        await self._world.simulation.sleep(fault.lasts_s)
        disk.slow_s = 0.0
        disk.capacity_bytes = None
        disk.heal()
        node.disk.slow_s = 0.0
        if fault.kind in ("failed sync", "failed write") and fault.node in self._actors.wanted:
            # After a failed sync a broker takes nothing more until it is started again.
            self._actors.kill(fault.node)
            await self._actors.keep_up(fault.node)
