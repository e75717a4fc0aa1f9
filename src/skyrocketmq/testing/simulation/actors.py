"""Starting and ending what the plan has on its nodes, each time with the event that tells of it."""

from __future__ import annotations

import asyncio
import hashlib

from skyrocketmq.store.consume_queue import FILLER_SIZE, ConsumeQueue
from skyrocketmq.testing.simulation.consumers import Consumer
from skyrocketmq.testing.simulation.disk import SimDisk
from skyrocketmq.testing.simulation.history import (
    BrokerEnded,
    BrokerStarted,
    ConsumerEnded,
    Ending,
    QueueEnds,
    QueueId,
)
from skyrocketmq.testing.simulation.node import ROOT, BrokerNode, Node, ServerNode, ServiceNode
from skyrocketmq.testing.simulation.senders import Sender
from skyrocketmq.testing.simulation.world import World

__all__ = ["Actors", "log_digest"]

STOP_S = 60.0  # within which a stop in order has to be over; else it is a kill
START_AGAIN_S = 1.0


class Actors:
    """Everything that runs on nodes. `lost` are machines that nobody sees again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.senders = {plan.node: Sender(world, plan) for plan in world.plan.senders}
        self.consumers = {plan.node: Consumer(world, plan) for plan in world.plan.consumers}
        self._groups = {plan.node: plan.group for plan in world.plan.consumers}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.lost: set[str] = set()
        self.wanted: dict[str, None] = {}  # nodes that should run: a fault may have ended them
        self.failed_starts: dict[str, str] = {}

    # ---------------------------------------------------------------------------------------------------------- starts

    async def start(self, name: str) -> bool:
        """Have a node run. False if it does not start now; whoever called tries again."""
        node = self._world.simulation.nodes[name]
        if name in self.lost or node.is_running:
            return True
        self.wanted[name] = None
        if isinstance(node, ServerNode):
            try:
                await node.start()
            except ProcessLookupError:  # killed while it started
                return True
            except Exception as error:
                self.failed_starts[name] = repr(error)
                return False
            self.failed_starts.pop(name, None)
            if isinstance(node, BrokerNode):
                self._note_start(node)
        elif isinstance(node, ServiceNode):
            actor = self.senders.get(name) or self.consumers[name]
            self._tasks[name] = node.start(actor.run)
        return True

    async def keep_up(self, name: str) -> None:
        """Start it, and try again while it fails."""
        while not await self.start(name):
            await self._world.simulation.sleep(START_AGAIN_S)

    def _note_start(self, node: BrokerNode) -> None:
        assert node.server is not None, "it was just started"
        self._world.note(
            BrokerStarted(
                node=node.name,
                broker=node.broker_name,
                broker_id=node.broker_id,
                role=node.role,
                flush=node.flush,
                recovered_to=node.server.store.log.max_offset,
            )
        )

    # ------------------------------------------------------------------------------------------------------------ ends

    def kill(self, name: str) -> None:
        node = self._world.simulation.nodes[name]
        if node.is_running:
            self._note_end(node, "killed")
            node.kill()

    def cut_power(self, name: str, choice: int, *, how: Ending = "power cut") -> None:
        node = self._world.simulation.nodes[name]
        if node.is_running:
            self._note_end(node, how)
        node.cut_power(seed=choice)

    async def stop(self, name: str) -> None:
        """In order, or by a kill if that takes too long."""
        node = self._world.simulation.nodes[name]
        if not node.is_running:
            return
        process = node.process
        stopping = asyncio.ensure_future(self._stop(node))
        await asyncio.wait([stopping], timeout=STOP_S)
        if node.process is process:
            self.kill(name)

    async def _stop(self, node: Node) -> None:
        process = node.process
        assert process is not None, "only a node that runs is stopped"
        if isinstance(node, ServerNode):
            try:
                await node.stop()
            except Exception:  # its disk fails, say: that counts as a kill
                if node.process is process:
                    self.kill(node.name)
                else:
                    self._note_end(node, "killed")
                return
        else:
            task = self._tasks[node.name]
            task.cancel()
            await asyncio.wait((task, process.ended), return_when=asyncio.FIRST_COMPLETED)
            if node.process is not process:
                return
            node.kill()
        self._note_end(node, "stopped")

    def _note_end(self, node: Node, how: Ending) -> None:
        if isinstance(node, BrokerNode):
            self._world.note(BrokerEnded(node=node.name, broker=node.broker_name, how=how))
        elif node.name in self._groups:
            self._world.note(ConsumerEnded(node=node.name, group=self._groups[node.name], how=how))

    # ------------------------------------------------------------------------------------------------------- promotion

    async def promote(self, slave: str) -> None:
        """Make a slave the master."""
        node = self._world.brokers[slave]
        was_slave = node.broker_id != 0  # a second promotion finds a master: what it has is no copy
        await self.stop(slave)
        node.promote()
        await self.keep_up(slave)
        for end in _copied_ends(node) if was_slave else ():
            self._world.note(end)

    @property
    def crashed(self) -> dict[str, str]:
        """Actors that ended by themselves, with what they raised: a mistake of the kit or of the client."""
        found = {}
        for name, task in self._tasks.items():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                found[name] = repr(error)
        return found


def log_digest(disk: SimDisk, start: int, end: int) -> str:
    """Of the bytes of a commit log between two places."""
    digest = hashlib.sha256()
    directory = ROOT / "commitlog"
    for name in disk.list(directory):
        if not name.isdigit():
            continue
        data, begin = disk.read(directory / name), int(name)
        digest.update(data[max(start - begin, 0) : max(end - begin, 0)])
    return digest.hexdigest()[:32]


def _copied_ends(node: BrokerNode) -> list[QueueEnds]:
    """Where the queues ended in its copy: since it started it may have skipped numbers and delivered what was due."""
    if node.server is None:
        return []
    store = node.server.store
    return [
        QueueEnds(
            node=node.name,
            queue=QueueId(queue.topic, node.broker_name, queue.queue_id),
            first=queue.min_offset,
            end=_end_before(queue, store.recovered.end),
            final=False,
        )
        for queue in store.queues
    ]


def _end_before(queue: ConsumeQueue, log_offset: int) -> int:
    places = (offset for offset, at, size, _ in queue.cells() if size != FILLER_SIZE and at < log_offset)
    return 1 + max(places, default=queue.first_offset - 1)
