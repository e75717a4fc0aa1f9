"""A cluster in process whose brokers can be stopped and started again, each on its own ports and directory.

async with open_cluster(tmp_path, broker_count=2) as cluster:
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from skyrocketmq.broker import Broker
from skyrocketmq.config import load_broker_config, load_namesrv_config
from skyrocketmq.embedded import broker_name, write_broker_file
from skyrocketmq.model import TopicConfig
from skyrocketmq.nameserver import NameServer
from skyrocketmq.ports import Disk, LocalDisk, SystemClock, TcpLink

__all__ = ["Cluster", "open_cluster", "until"]


class Cluster:
    """A name server and brokers on the loopback address."""

    def __init__(self, directory: Path, name_server: NameServer, disk: Disk, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._disk = disk
        self._settings = settings
        self._lives: dict[str, AsyncExitStack] = {}
        self._ports: dict[str, int] = {}
        self.name_server = name_server
        self.brokers: dict[str, Broker] = {}

    @property
    def namesrv(self) -> str:
        return self.name_server.address

    async def start_broker(self, name: str) -> Broker:
        """Start a broker; one that was there before comes back on its ports, with its store."""
        index = ord(name[-1]) - ord("a")
        port = self._ports.get(name, 0)
        path = write_broker_file(self._directory, index, namesrv=self.namesrv, port=port, disk=self._disk)
        loaded = load_broker_config(path, environ={}, overrides=self._settings, disk=self._disk)
        life = AsyncExitStack()
        broker = await life.enter_async_context(Broker.open(loaded, disk=self._disk))
        self._lives[name] = life
        self._ports[name] = int(broker.address.rpartition(":")[2])
        self.brokers[name] = broker
        return broker

    async def stop_broker(self, name: str) -> None:
        del self.brokers[name]
        await self._lives.pop(name).aclose()

    async def close(self) -> None:
        for name in list(self._lives):
            await self.stop_broker(name)

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Have a topic on every broker, and let the name server know."""
        for broker in self.brokers.values():
            broker.tables.topics.put(TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues))

    def stored_offset(self, group: str, topic: str, queue_id: int, *, broker: str = "broker-a") -> int | None:
        return self.brokers[broker].tables.offsets.find(group=group, topic=topic, queue_id=queue_id)


@asynccontextmanager
async def open_cluster(
    directory: Path,
    *,
    broker_count: int = 1,
    settings: Mapping[str, str] | None = None,
    namesrv_settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as opened:
        disk = LocalDisk()
        opened.callback(disk.close)
        config = load_namesrv_config(
            environ={},
            overrides={
                "listenPort": "0",
                "bindAddress": "127.0.0.1",
                "kvConfigPath": str(directory / "namesrv" / "kvConfig.json"),
                "configStorePath": str(directory / "namesrv" / "namesrv.properties"),
                **(namesrv_settings or {}),
            },
            disk=disk,
        )
        name_server = await opened.enter_async_context(
            NameServer.open(config, clock=SystemClock(), disk=disk, link=TcpLink())
        )
        cluster = Cluster(directory, name_server, disk, settings or {})
        opened.push_async_callback(cluster.close)
        for index in range(broker_count):
            await cluster.start_broker(broker_name(index))
        yield cluster


async def until(condition: Callable[[], object], *, seconds: float = 10.0) -> None:
    """Wait for what the network, or another task, brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        await asyncio.sleep(0.005)
