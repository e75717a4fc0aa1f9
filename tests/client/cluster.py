"""A cluster in process whose brokers can be stopped and started again, each on its own ports and directory.

async with open_cluster(tmp_path, broker_count=2) as cluster:
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from skyrocketmq.broker import Broker
from skyrocketmq.embedded import Embedded, EmbeddedOptions
from skyrocketmq.model import TopicConfig
from skyrocketmq.nameserver import NameServer
from tests.waiting import until as until

__all__ = ["Cluster", "open_cluster", "until"]


class Cluster:
    """A name server and brokers on the loopback address."""

    def __init__(self, embedded: Embedded) -> None:
        self._embedded = embedded

    @property
    def name_server(self) -> NameServer:
        return self._embedded.name_server

    @property
    def namesrv(self) -> str:
        return self._embedded.namesrv_address

    @property
    def brokers(self) -> dict[str, Broker]:
        return {broker.identity.broker_name: broker for broker in self._embedded.brokers}

    async def start_broker(self, name: str) -> Broker:
        """Start a broker; one that was there before comes back on its ports, with its store."""
        return await self._embedded.start_broker(name)

    async def stop_broker(self, name: str) -> None:
        await self._embedded.stop_broker(name)

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Have a topic on every broker, and let the name server know."""
        for broker in self._embedded.brokers:
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
    """With no brokers: `broker-a` is known and stopped."""
    options = EmbeddedOptions(
        namesrv_port=0,
        broker_port=0,
        broker_count=broker_count or 1,
        settings=settings or {},
        namesrv_settings=namesrv_settings or {},
    )
    async with Embedded.open(directory, options) as embedded:
        if not broker_count:
            await embedded.stop_broker("broker-a")
        yield Cluster(embedded)
