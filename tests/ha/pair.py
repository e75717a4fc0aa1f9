"""A master and its slaves as whole brokers, in one process, on disks in memory and on links that can be cut.

    async with open_pair() as pair:
        await pair.master.send_many(10)
        await pair.caught_up()

The slave has its master's address from its configuration, so no name server is needed. All share one clock, which moves
only while a test waits: `until` and `moving` let time pass in small steps as long as they have to, `pass_time` for as
long as the test says. Between the steps everything that is on its way arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from skyrocketmq.broker import Broker
from skyrocketmq.config import BrokerRole, ServerConfig
from skyrocketmq.store import MessageStore
from skyrocketmq.testing import FaultyDisk, FaultyLink, ManualClock
from skyrocketmq.testing.quiet import until_quiet
from tests.broker.house import ROOT, House, house_config, read_store

T = TypeVar("T")

STEP_S: Final = 0.05
MASTER_STORE = {"ha_heartbeat_interval_ms": 200, "ha_idle_timeout_ms": 2000}


class Member(House):
    """One broker of the group, which can be stopped and started again on the same disk and port."""

    def __init__(self, pair: Pair, *, disk: FaultyDisk | None = None, **config: Any) -> None:
        disk = disk or FaultyDisk(directories=[ROOT], clock=pair.clock)
        super().__init__(None, disk, pair.clock)  # type: ignore[arg-type]  # it is set by `start`
        self.pair = pair
        self.link = FaultyLink(clock=pair.clock)
        self.memory = disk
        self.settings = config
        self._opened: AsyncExitStack | None = None
        self._port = 0

    @property
    def store(self) -> MessageStore:
        return self.broker.store

    @property
    def ha_address(self) -> str:
        return self.broker.identity.ha_address

    async def start(self) -> None:
        changes = dict(self.settings)
        changes["server"] = ServerConfig(listen_port=self._port, bind_address="127.0.0.1")
        self._opened = AsyncExitStack()
        opening = Broker.open(house_config(**changes), disk=self.memory, clock=self.clock, link=self.link)
        self.broker = await self._opened.enter_async_context(opening)
        self._port = self.port

    async def stop(self) -> None:
        await self.close_peers()
        self._peers.clear()
        if self._opened is not None:
            opened, self._opened = self._opened, None
            await self.pair.moving(opened.aclose())

    def log_bytes(self, begin: int | None = None, end: int | None = None) -> bytes:
        """The bytes of the log, as they are in its files."""
        log = self.store.log
        parts = []
        for file in log.files:
            opened = self.memory.open(file.path)
            parts.append(opened.pread(log.file_bytes, 0))
            opened.close()
        first = log.min_offset
        data = b"".join(parts)[: log.max_offset - first]
        return data[(begin or first) - first : None if end is None else end - first]


class Pair:
    """A master and its slaves."""

    master: Member

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.slaves: list[Member] = []

    @property
    def slave(self) -> Member:
        return self.slaves[0]

    @property
    def members(self) -> list[Member]:
        return [self.master, *self.slaves]

    # ------------------------------------------------------------------------------------------------------------ time

    async def pass_time(self, seconds: float = STEP_S) -> None:
        """Let so much time pass, and everything happen that happens meanwhile."""
        end = self.clock.monotonic() + seconds
        await self._quiet()
        while (left_s := end - self.clock.monotonic()) > 0:
            await self.clock.advance(min(STEP_S, left_s))
            await self._quiet()

    async def _quiet(self) -> None:
        await until_quiet(self.clock, [member.link for member in self.members], None)

    async def until(self, condition: Callable[[], object], *, seconds: float = 30.0) -> None:
        """Let time pass until the condition holds."""
        await self._quiet()
        end = self.clock.monotonic() + seconds
        while not condition():
            assert self.clock.monotonic() < end, f"not within {seconds:g} s: {condition}"
            await self.pass_time()

    async def moving(self, work: Coroutine[Any, Any, T]) -> T:
        """Let time pass until something is done."""
        task = asyncio.create_task(work)
        await self.until(task.done)
        return task.result()

    def is_caught_up(self) -> bool:
        end = self.master.store.log.max_offset
        return all(slave.store.log.whole_offset == end for slave in self.slaves)

    async def caught_up(self) -> None:
        await self.until(self.is_caught_up)

    async def connected(self, *, seconds: float = 30.0) -> None:
        """Every slave is known to the master."""
        replicas = self.master.broker.replication.replicas
        await self.until(lambda: len(replicas.slaves) == len(self.slaves), seconds=seconds)

    def assert_equal(self) -> None:
        """Each slave's log is its master's, byte for byte, over its range."""
        for slave in self.slaves:
            log = slave.store.log
            assert slave.log_bytes() == self.master.log_bytes(log.min_offset, log.max_offset)

    async def add_slave(self, **changes: Any) -> Member:
        store = {**MASTER_STORE, **changes.pop("store", {})}
        store |= {"broker_role": BrokerRole.SLAVE, "ha_master_address": self.master.ha_address}
        slave = Member(self, broker_id=len(self.slaves) + 1, store=store, **changes)
        await slave.start()
        self.slaves.append(slave)
        return slave


@asynccontextmanager
async def open_pair(
    *, slaves: int = 1, role: BrokerRole = BrokerRole.ASYNC_MASTER, check: bool = True, **changes: Any
) -> AsyncIterator[Pair]:
    """A master and so many slaves, connected. Afterwards every store is read by the independent reader."""
    pair = Pair()
    store = {**MASTER_STORE, "broker_role": role, **changes.pop("store", {})}
    slave_store = changes.pop("slave_store", {})
    files: dict[Path, str] = changes.pop("files", {})
    master = pair.master = Member(pair, store=store, **changes)
    for path, text in files.items():
        master.memory.make_directories(path.parent)
        master.memory.replace(path, text.encode())
    try:
        await master.start()
        for _ in range(slaves):
            await pair.add_slave(store=slave_store)
        if slaves:
            await pair.connected()
        yield pair
    finally:
        for member in (*pair.slaves, master):
            await member.stop()
    if check:
        for member in (*pair.slaves, master):
            read_store(member.memory, house_config(**member.settings))
