"""A whole cluster in one process on virtual time, from one seed.

    async def story(sim: Simulation) -> None:
        sim.name_server()
        master = sim.broker("a", flushDiskType="SYNC_FLUSH")
        await sim.start()
        shop = sim.service("shop")
        ...

    Simulation(seed=7).run(story)

The servers and the clients are the real ones; time, disks, the network and chance are the simulation's. The same seed
gives the same run, byte for byte. A minute of a small cluster takes about a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from skyrocketmq.testing.simulation.loop import SimLoop
from skyrocketmq.testing.simulation.network import SimNet
from skyrocketmq.testing.simulation.node import BrokerNode, NameServerNode, Node, ServiceNode

__all__ = ["Simulation"]

T = TypeVar("T")
N = TypeVar("N", bound=Node)


class Simulation:
    """One run. Nodes are made by `name_server`, `broker` and `service`, and started by `start`, or one by one."""

    def __init__(self, seed: int = 0, *, log: bool = False) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.net = SimNet(self.loop, seed=seed)
        self.nodes: dict[str, Node] = {}
        self._log = log

    def run(self, story: Callable[[Simulation], Coroutine[Any, Any, T]]) -> T:
        """Tell the story to its end; what it returns. Once for each simulation."""
        with _logging(self._log):
            return self.loop.run(story(self))

    # ----------------------------------------------------------------------------------------------------------- nodes

    def name_server(self, name: str = "namesrv", **settings: str) -> NameServerNode:
        return self._add(NameServerNode(self, name, settings))

    def broker(self, name: str, **settings: str) -> BrokerNode:
        """A broker, with Apache's keys: `sim.broker("b", brokerName="a", brokerId="1", brokerRole="SLAVE")`."""
        return self._add(BrokerNode(self, name, settings))

    def service(self, name: str) -> ServiceNode:
        return self._add(ServiceNode(self, name))

    def _add(self, node: N) -> N:
        assert node.name not in self.nodes, f"there is a node {node.name} already"
        self.nodes[node.name] = node
        return node

    async def start(self) -> None:
        """Start every server that is down: name servers, then brokers in the order in which they were made."""
        for kind in (NameServerNode, BrokerNode):
            for node in self.nodes.values():
                if isinstance(node, kind) and not node.is_running:
                    await node.start()

    @property
    def namesrv(self) -> str:
        """The addresses of all name servers, as clients and brokers take them."""
        return ";".join(node.address for node in self.nodes.values() if isinstance(node, NameServerNode))

    # ------------------------------------------------------------------------------------------------------------ time

    @property
    def now(self) -> float:
        """True time, in seconds since the beginning."""
        return self.loop.time()

    async def sleep(self, seconds: float) -> None:
        future: Any = self.loop.create_future()
        self.loop.call_later(seconds, future.set_result, None)
        await future

    async def forever(self) -> None:
        """Wait until whoever waits is ended."""
        await self.loop.create_future()

    async def until(self, condition: Callable[[], bool], *, within_s: float = 60.0, every_s: float = 0.1) -> bool:
        """Wait until a condition holds; False if it does not within the time."""
        end = self.now + within_s
        while not condition():
            if self.now >= end:
                return False
            await self.sleep(every_s)
        return True


@contextmanager
def _logging(is_on: bool) -> Generator[None]:
    """Silence: what brokers log in a storm of faults would take most of the time."""
    logger = logging.getLogger("skyrocketmq")
    before = logger.level
    if not is_on:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
