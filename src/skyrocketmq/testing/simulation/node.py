"""Machines of a simulation, and what runs on them: name servers, brokers, and whatever uses them.

A node has an address, a disk, a clock and at most one process. `stop` ends that in order, `kill` at once with the
memory of the machine intact, `cut_power` with nothing left but what is on the disk, `pause` holds it still.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from skyrocketmq.broker import Broker
from skyrocketmq.client.settings import SharedOptions
from skyrocketmq.config import load_broker_config, load_namesrv_config
from skyrocketmq.nameserver import NameServer
from skyrocketmq.ports import Chance
from skyrocketmq.testing.simulation.clock import SimClock
from skyrocketmq.testing.simulation.disk import SimDisk
from skyrocketmq.testing.simulation.loop import Process
from skyrocketmq.testing.simulation.machine import SimMachine

if TYPE_CHECKING:
    from skyrocketmq.testing.simulation.simulation import Simulation

__all__ = ["BrokerNode", "Node", "ServerNode", "ServiceNode"]

T = TypeVar("T")

ROOT: Final = Path("/store")
NAMESRV_PORT: Final = 9876
BROKER_PORT: Final = 10911
FIRST_PROCESS_ID: Final = 1000

# Small files, so that a run of a minute rolls them; nothing of it changes what the broker does.
SMALL_STORE: Final = {
    "mappedFileSizeCommitLog": str(256 << 10),
    "mappedFileSizeConsumeQueue": str(20 * 300),
    "maxIndexNum": "400",
    "maxHashSlotNum": "100",
}


class Node:
    """One machine. `clock`, `disk` and `link` are its own and outlive its processes."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self.simulation = simulation
        self.link = simulation.net.link(name)
        self.clock = SimClock(simulation.loop)
        self._disk_chance = random.Random(f"{simulation.seed}/{name}/disk")
        self.disk = SimDisk(self.clock, self._disk_chance, directories=[ROOT])
        self.process: Process | None = None
        self.life_count = 0
        self.chance: Chance
        self.machine: SimMachine
        self._client_count = 0

    @property
    def is_running(self) -> bool:
        return self.process is not None

    def _begin(self) -> Process:
        """A new process, with chance and numbers of its own."""
        assert self.process is None, f"{self.name} runs already"
        self.life_count += 1
        self._client_count = 0
        self.link.come_up()
        self.chance = Chance(f"{self.simulation.seed}/{self.name}/{self.life_count}")
        self.machine = SimMachine(self.link.address, FIRST_PROCESS_ID + self.life_count)
        self.process = self.simulation.loop.process(f"{self.name}/{self.life_count}")
        return self.process

    def _end(self) -> Process | None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
        return process

    # ---------------------------------------------------------------------------------------------------------- faults

    def kill(self) -> None:
        """As `kill -9` does: what was written is in the page cache, and stays."""
        process = self._end()
        if process is not None:
            self.link.close_process(process)
            self.disk.release_locks()

    def cut_power(self, *, seed: int = 0) -> None:
        """Everything ends at once. Of what was not synced, `seed` chooses what is found afterwards, page by page."""
        self._end()
        self.link.go_dark()
        survivor = self.disk.after_power_loss(seed)
        assert isinstance(survivor, SimDisk), "a disk of the same make"
        self.disk = survivor

    def pause(self) -> None:
        """As SIGSTOP does: its connections stay, its timers are late."""
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None:
            self.process.resume()


class ServerNode(Node, Generic[T]):
    """A node that runs one server. `server` is there while it runs."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation, name)
        self.server: T | None = None
        self._stop: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None

    def _open(self) -> AbstractAsyncContextManager[T]:
        raise NotImplementedError

    async def start(self) -> T:
        """Start the server; it serves when this returns. Raises what its start raised, and is down then."""
        process = self._begin()
        stop = self._stop = asyncio.Event()
        opened: asyncio.Future[T] = self.simulation.loop.create_future()
        main = self._main = process.start(self._live(opened, stop), name=f"{self.name} runs")
        await asyncio.wait((main, opened, process.ended), return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            if process is self.process:
                self.kill()
            if main.done() and (error := main.exception()) is not None:
                raise error
            raise ProcessLookupError(f"{process.name} was killed while it started")
        self.server = opened.result()
        return self.server

    async def _live(self, opened: asyncio.Future[T], stop: asyncio.Event) -> None:
        async with self._open() as server:
            opened.set_result(server)
            await stop.wait()

    async def stop(self) -> None:
        """End it in order."""
        process, main, stop = self.process, self._main, self._stop
        if process is None or main is None or stop is None:
            return
        process.context.copy().run(stop.set)
        await asyncio.wait((main, process.ended), return_when=asyncio.FIRST_COMPLETED)
        if self.process is process:
            self.kill()  # nothing of it is left to run; its ports and locks are free
        if main.done() and not main.cancelled() and (error := main.exception()) is not None:
            raise error

    def _end(self) -> Process | None:
        self.server = None
        return super()._end()


class NameServerNode(ServerNode[NameServer]):
    """A name server."""

    def __init__(self, simulation: Simulation, name: str, settings: dict[str, str]) -> None:
        super().__init__(simulation, name)
        self.settings = settings
        self.address = f"{self.link.address}:{NAMESRV_PORT}"

    def _open(self) -> AbstractAsyncContextManager[NameServer]:
        config = load_namesrv_config(
            environ={},
            overrides={
                "listenPort": str(NAMESRV_PORT),
                "kvConfigPath": str(ROOT / "kvConfig.json"),
                "configStorePath": str(ROOT / "namesrv.properties"),
                **self.settings,
            },
        )
        return NameServer.open(config, clock=self.clock, disk=self.disk, link=self.link, chance=self.chance)


class BrokerNode(ServerNode[Broker]):
    """A broker. `settings` are Apache's keys; what is changed there holds from the next start on."""

    def __init__(self, simulation: Simulation, name: str, settings: dict[str, str]) -> None:
        super().__init__(simulation, name)
        self.settings = settings

    @property
    def broker_name(self) -> str:
        return self.settings.get("brokerName", self.name)

    @property
    def role(self) -> str:
        return self.settings.get("brokerRole", "ASYNC_MASTER")

    @property
    def broker_id(self) -> int:
        return int(self.settings.get("brokerId", "0"))

    @property
    def flush(self) -> str:
        return self.settings.get("flushDiskType", "ASYNC_FLUSH")

    def promote(self, role: str = "ASYNC_MASTER") -> None:
        """Make a slave that is stopped a master, as docs/replication.md tells operators to."""
        assert self.process is None, f"{self.name} runs: stop it first"
        self.settings |= {"brokerRole": role, "brokerId": "0"}

    def demote(self) -> None:
        """Make a master that is stopped a slave."""
        assert self.process is None, f"{self.name} runs: stop it first"
        self.settings |= {"brokerRole": "SLAVE", "brokerId": "1"}

    def _open(self) -> AbstractAsyncContextManager[Broker]:
        config = load_broker_config(
            None,
            environ={},
            overrides={
                "brokerClusterName": "simulated",
                "brokerName": self.name,
                "brokerIP1": self.link.address,
                "brokerIP2": self.link.address,
                "listenPort": str(BROKER_PORT),
                "namesrvAddr": self.simulation.namesrv,
                "storePathRootDir": str(ROOT),
                "storePathCommitLog": str(ROOT / "commitlog"),
                **SMALL_STORE,
                **self.settings,
            },
        )
        return Broker.open(
            config, clock=self.clock, disk=self.disk, link=self.link, chance=self.chance, machine=self.machine
        )


class ServiceNode(Node):
    """A node for what uses the cluster: your own service, or clients of a test."""

    def start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Run `work` as the node's process."""
        return self._begin().start(work(), name=f"{self.name} runs")

    def options(self) -> SharedOptions:
        """Arguments for a client on this node, besides its group and `namesrv`."""
        self._client_count += 1
        return SharedOptions(
            clock=self.clock,
            link=self.link,
            chance=self.chance,
            machine=self.machine,
            instance_name=f"{self.name}-{self.life_count}-{self._client_count}",
        )

    async def call(self, work: Awaitable[T]) -> T:
        """Do something in the node's process, started if it has none, and wait for it."""
        process = self.process or self._begin()

        async def run() -> T:
            return await work

        return await process.call(run(), name=f"{self.name} is asked")

    def stop(self) -> None:
        """The process has nothing left to do."""
        self.kill()
