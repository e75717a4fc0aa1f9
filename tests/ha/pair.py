"""A master and its slaves as whole brokers, in one process, on disks in memory and on links that can be cut.

    async with open_pair() as pair:
        await pair.master.send_many(10)
        await pair.caught_up()

The slave is told where its master is, so that no name server is needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from skyrocketmq.broker import Broker
from skyrocketmq.config import BrokerRole, ServerConfig
from skyrocketmq.ports import Clock, SystemClock
from skyrocketmq.store import MessageStore
from skyrocketmq.testing import FaultyDisk, FaultyLink
from tests.broker.house import ROOT, House, house_config, read_store
from tests.broker.support import until
from tests.waiting import PATIENCE_S

# A busy machine may need seconds for what takes a slave milliseconds: a test that wants it late sets `slaveTimeout`
# when it is time for that.
MASTER_STORE = {"ha_heartbeat_interval_ms": 200, "ha_idle_timeout_ms": 2000, "slave_timeout_ms": 30_000}


class Member(House):
    """One broker of the group, which can be stopped and started again on the same disk and port."""

    def __init__(self, disk: FaultyDisk, link: FaultyLink, clock: Clock, **config: Any) -> None:
        super().__init__(None, disk, clock)  # type: ignore[arg-type]  # it is set by `start`
        self.link = link
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
            await opened.aclose()

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

    def __init__(self, master: Member) -> None:
        self.master = master
        self.slaves: list[Member] = []

    @property
    def slave(self) -> Member:
        return self.slaves[0]

    @property
    def members(self) -> list[Member]:
        return [self.master, *self.slaves]

    def is_caught_up(self) -> bool:
        end = self.master.store.log.max_offset
        return all(slave.store.log.whole_offset == end for slave in self.slaves)

    async def caught_up(self) -> None:
        await until(self.is_caught_up, seconds=PATIENCE_S)

    async def connected(self) -> None:
        """Every slave is known to the master."""
        replicas = self.master.broker.replication.replicas
        await until(lambda: len(replicas.slaves) == len(self.slaves), seconds=PATIENCE_S)

    def assert_equal(self) -> None:
        """Each slave's log is its master's, byte for byte, over its range."""
        for slave in self.slaves:
            log = slave.store.log
            assert slave.log_bytes() == self.master.log_bytes(log.min_offset, log.max_offset)

    async def add_slave(self, **changes: Any) -> Member:
        store = {**MASTER_STORE, **changes.pop("store", {})}
        store |= {"broker_role": BrokerRole.SLAVE, "ha_master_address": self.master.ha_address}
        clock = changes.pop("clock", None) or SystemClock()
        slave = Member(
            FaultyDisk(directories=[ROOT], clock=clock),
            FaultyLink(clock=clock),
            clock,
            broker_id=len(self.slaves) + 1,
            store=store,
            **changes,
        )
        await slave.start()
        self.slaves.append(slave)
        return slave


@asynccontextmanager
async def open_pair(
    *, slaves: int = 1, role: BrokerRole = BrokerRole.ASYNC_MASTER, check: bool = True, **changes: Any
) -> AsyncIterator[Pair]:
    """A master and so many slaves, connected. Afterwards every store is read by the independent reader."""
    clock = SystemClock()
    store = {**MASTER_STORE, "broker_role": role, **changes.pop("store", {})}
    slave_store = changes.pop("slave_store", {})
    files: dict[Path, str] = changes.pop("files", {})
    master = Member(FaultyDisk(directories=[ROOT], clock=clock), FaultyLink(clock=clock), clock, store=store, **changes)
    for path, text in files.items():
        master.memory.make_directories(path.parent)
        master.memory.replace(path, text.encode())
    pair = Pair(master)
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
