"""A store with delayed delivery on it, and a clock that the test moves: what the tests of delays need of a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skyrocketmq.broker.delay import DelayDelivery
from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage
from skyrocketmq.config import StoreConfig
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.ports import Disk
from skyrocketmq.store import MessageStore, NewMessage, PutResult, PutStatus
from skyrocketmq.testing import ManualClock
from tests.store.reader import Record, read_records
from tests.store.support import BORN_HOST, BORN_MS, STORE_HOST

TOPIC = "TopicTest"


def delay_config(root: Path, **changes: Any) -> StoreConfig:
    """Small files, and the usual levels."""
    settings: dict[str, Any] = {
        "root_path": root,
        "commit_log_file_bytes": 64 * 1024,
        "queue_file_bytes": 20 * 100,
        "index_slot_count": 100,
        "index_entry_count": 2000,
    }
    return StoreConfig(**(settings | changes))


class Delays:
    """A store and its delayed messages."""

    def __init__(self, store: MessageStore, delivery: DelayDelivery, disk: Disk, clock: ManualClock) -> None:
        self.store = store
        self.delivery = delivery
        self.disk = disk
        self.clock = clock
        self.writer = MessageWriter(store, on_delayed=delivery.arrived)

    def send(
        self,
        level: int,
        body: bytes = b"hello",
        *,
        topic: str = TOPIC,
        queue_id: int = 0,
        properties: dict[bytes, bytes] | None = None,
        **fields: Any,
    ) -> PutResult:
        """Store a message as the broker stores what a producer sends."""
        settings: dict[str, Any] = {"born_ms": BORN_MS, "born_host": BORN_HOST, "is_sent": True} | fields
        message = OutgoingMessage(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties={b"DELAY": b"%d" % level} | (properties or {}),
            **settings,
        )
        result = self.writer.put(message)
        assert result.status is PutStatus.PUT_OK, result
        return result

    def send_raw(self, properties: str, *, level: int = 1, body: bytes = b"hello") -> PutResult:
        """Put a record into a level's queue, whatever it says."""
        message = NewMessage(
            topic=SCHEDULE_TOPIC,
            queue_id=level - 1,
            body=body,
            properties=properties.encode(),
            born_timestamp=BORN_MS,
            born_host=BORN_HOST,
        )
        result = self.store.put(message)
        self.delivery.arrived(level)
        return result

    async def settle(self) -> None:
        """Let everything be delivered that is due, however many turns of the loop that takes."""
        for _ in range(10):
            await self.clock.settle()

    async def received(self, topic: str = TOPIC, queue_id: int = 0) -> list[Record]:
        """Everything that has come to a queue, read by the independent reader."""
        records: list[Record] = []
        offset = int(self.store.min_offset(topic, queue_id))
        while offset < self.store.max_offset(topic, queue_id):
            found = await self.store.read_messages(topic, queue_id, offset, 32)
            assert found is not None
            records += read_records(found.joined())
            offset = found.next_offset
        return records

    async def bodies(self, topic: str = TOPIC, queue_id: int = 0) -> list[bytes]:
        return [record.body for record in await self.received(topic, queue_id)]

    def file(self) -> bytes | None:
        """The bytes of `delayOffset.json`."""
        path = self.store.config.root_path / "config" / "delayOffset.json"
        return self.disk.read(path) if self.disk.exists(path) else None


@asynccontextmanager
async def open_delays(
    disk: Disk, config: StoreConfig, clock: ManualClock, *, store_host: bytes = STORE_HOST
) -> AsyncIterator[Delays]:
    async with (
        MessageStore.open(config, disk=disk, clock=clock, store_host=store_host) as store,
        DelayDelivery.open(store, store_host=store_host, disk=disk, clock=clock) as delivery,
    ):
        yield Delays(store, delivery, disk, clock)
