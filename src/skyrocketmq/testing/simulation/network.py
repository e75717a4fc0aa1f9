"""The network between simulated nodes: delays, ways that are cut, machines that go dark.

    net = SimNet(loop, seed=7)
    link = net.link("broker-a")          # a `Link`: one machine with an address of its own
    net.cut("broker-a", "slave")         # one way: what goes from the first to the second waits
    net.heal("broker-a", "slave")

Rule 1: a connection is TCP: what arrives is in order and whole, or the connection breaks. What is on a way that is cut
waits, as it does while TCP tries again; two connections overtake each other freely.
Rule 2: a process that is killed has its connections closed by the kernel, which still delivers what was written. A
machine that loses power says nothing to anybody: its peers find out when it is up again and they write, or never.
Rule 3: delays come from a generator of each connection, seeded by its ends and its number, so that a change in one
place of a plan leaves the rest of the network as it was.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from typing import Final

from skyrocketmq.errors import NetError
from skyrocketmq.ports import Bound
from skyrocketmq.testing.simulation.loop import PROCESS, Process, SimLoop
from skyrocketmq.testing.simulation.transport import SimTransport

__all__ = ["SimLink", "SimNet"]

SYN_AGAIN_S: Final = 1.0  # what TCP waits before it asks again
FIRST_FREE_PORT: Final = 40_000
FIRST_CLIENT_PORT: Final = 50_000


class SimNet:
    """All links of a simulation, and what is wrong between them."""

    def __init__(self, loop: SimLoop, *, seed: int, latency_s: tuple[float, float] = (0.0001, 0.001)) -> None:
        self.loop = loop
        self.latency_s = latency_s
        self.context = Context()  # of what no process does: the kernels' work
        self._seed = seed
        self.links: dict[str, SimLink] = {}  # by the nodes' names
        self.by_address: dict[str, SimLink] = {}
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._extra_s: dict[tuple[str, str], float] = {}
        self._connection_counts: Counter[tuple[str, str]] = Counter()
        self.waiting: dict[SimTransport, None] = {}  # those with something on a way that is closed

    def link(self, node: str) -> SimLink:
        """The link of a node, made when it is first asked for."""
        if node not in self.links:
            made = SimLink(self, node, f"10.0.{len(self.links) // 250}.{len(self.links) % 250 + 1}")
            self.links[node] = self.by_address[made.address] = made
        return self.links[node]

    # ---------------------------------------------------------------------------------------------------------- faults

    def cut(self, sender: str, receiver: str) -> None:
        """Nothing passes from one to the other until it is healed as often as it was cut. `*` is everybody."""
        self._cuts[sender, receiver] += 1

    def heal(self, sender: str, receiver: str) -> None:
        self._cuts[sender, receiver] -= 1
        self.try_again()

    def slow(self, sender: str, receiver: str, extra_s: float) -> None:
        """Everything on this way takes so much longer; 0 ends it."""
        self._extra_s[sender, receiver] = extra_s

    def reset(self, one: str, other: str) -> None:
        """Break every connection between two nodes; both notice."""
        for transport in list(self.link(one).transports):
            if transport.peer.link.node == other or other == "*":
                transport.break_off()
                transport.peer.break_off()

    def is_cut(self, sender: str, receiver: str) -> bool:
        cuts = self._cuts
        return bool(cuts) and (cuts[sender, receiver] > 0 or cuts[sender, "*"] > 0 or cuts["*", receiver] > 0)

    def extra_s(self, sender: str, receiver: str) -> float:
        return self._extra_s.get((sender, receiver), 0.0) if self._extra_s else 0.0

    def try_again(self) -> None:
        """Something has changed: look at everything that waits."""
        waiting, self.waiting = self.waiting, {}
        for transport in waiting:
            transport.arm()

    # ----------------------------------------------------------------------------------------------------- connections

    def chance_of(self, one: str, other: str) -> random.Random:
        """The generator of the next connection between two nodes."""
        self._connection_counts[one, other] += 1
        return random.Random(f"{self._seed}/{one}>{other}/{self._connection_counts[one, other]}")


class SimBound:
    """A port that is claimed."""

    def __init__(self, link: SimLink, port: int, process: Process | None) -> None:
        self._link = link
        self.host = link.address
        self.port = port
        self.process = process

    def close(self) -> None:
        if self._link.bound.get(self.port) is self:
            del self._link.bound[self.port]


class SimLink:
    """One machine's network: a `Link`."""

    def __init__(self, net: SimNet, node: str, address: str) -> None:
        self.net = net
        self.node = node
        self.address = address
        self.is_up = True
        self.bound: dict[int, SimBound] = {}
        self.listeners: dict[int, SimListener] = {}
        self.transports: dict[SimTransport, None] = {}
        self._next_port = FIRST_FREE_PORT
        self._next_client_port = FIRST_CLIENT_PORT

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        net, chance = self.net, self.net.chance_of(self.node, host)
        process = PROCESS.get()
        target = net.by_address.get(host)
        if target is None:
            raise OSError(errno.EHOSTUNREACH, f"{host} is no node of this simulation")
        delay_s = chance.uniform(*net.latency_s)
        while True:
            await asyncio.sleep(delay_s + net.extra_s(self.node, target.node) + net.extra_s(target.node, self.node))
            if target.is_up and not net.is_cut(self.node, target.node) and not net.is_cut(target.node, self.node):
                break
            await asyncio.sleep(SYN_AGAIN_S)
        listener = target.listeners.get(port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {host}:{port}")
        self._next_client_port += 1
        own, theirs = (self.address, self._next_client_port), (host, port)
        near = SimTransport(self, process, chance, local=own, remote=theirs)
        far = SimTransport(target, listener.process, chance, local=theirs, remote=own)
        near.peer, far.peer = far, near
        self.transports[near] = None
        target.transports[far] = None
        protocol = factory()
        # The kernel takes the connection; the process that listens hears of it when it runs.
        net.loop.call_soon(far.begin, listener.factory, context=far.context)
        near.begin(lambda: protocol)
        return near, protocol

    def bind(self, host: str, port: int, *, backlog: int) -> Bound:
        if not port:
            self._next_port += 10
            port = self._next_port
        if port in self.bound:
            raise NetError(f"cannot listen on {host or '*'}:{port}: it is taken")
        bound = self.bound[port] = SimBound(self, port, PROCESS.get())
        return bound

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], bound: Bound, *, backlog: int
    ) -> asyncio.AbstractServer:
        assert isinstance(bound, SimBound), "a link listens on what it has bound"
        listener = self.listeners[bound.port] = SimListener(self, bound, factory)
        return listener

    async def resolve(self, host: str) -> str:
        link = self.net.links.get(host)
        return link.address if link is not None else host

    # ---------------------------------------------------------------------------------------------------------- faults

    def close_process(self, process: Process) -> None:
        """A process of this machine was killed: the kernel closes what it had."""
        for port, bound in list(self.bound.items()):
            if bound.process is process:
                del self.bound[port]
                self.listeners.pop(port, None)
        for transport in list(self.transports):
            if transport.process is process:
                transport.orphan()

    def go_dark(self) -> None:
        """The machine has no power."""
        self.is_up = False
        self.bound.clear()
        self.listeners.clear()
        for transport in list(self.transports):
            transport.go_dark()

    def come_up(self) -> None:
        """The machine has power again; it knows nothing of its old connections, and says so to who writes to them."""
        if not self.is_up:
            self.is_up = True
            self.net.try_again()


class SimListener(asyncio.AbstractServer):
    def __init__(self, link: SimLink, bound: SimBound, factory: Callable[[], asyncio.Protocol]) -> None:
        self.link = link
        self.factory = factory
        self.process = bound.process
        self._bound = bound

    def close(self) -> None:
        if self.link.listeners.get(self._bound.port) is self:
            del self.link.listeners[self._bound.port]
        self._bound.close()

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)

    async def start_serving(self) -> None:
        """It serves from the beginning."""

    async def serve_forever(self) -> None:
        raise NotImplementedError("nobody serves for ever here")

    def is_serving(self) -> bool:
        return self.link.listeners.get(self._bound.port) is self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.link.net.loop
