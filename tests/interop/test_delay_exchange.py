"""Delayed messages that wait while one store directory goes from our broker to Apache's and back.

Each goes on where the other stopped: what one has delivered the other does not repeat, what one has left the other
delivers, and `delayOffset.json` is the same file, to the byte, whoever writes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skyrocketmq.broker.delay import DelayDelivery
from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage
from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.store import MessageStore, PutStatus
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import DelayOffsetTable
from skyrocketmq.wire.json_dialect import write_pretty
from tests.broker.support import until
from tests.interop.apache import Apache, Server
from tests.interop.driver import Driver, Queue, message
from tests.interop.exchange import BROKER, apaches_broker_on
from tests.interop.processes import wait_until
from tests.store.reader import Record, read_records

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

TOPIC = "Later"
HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
DELAY_LEVELS = "1s 5s 10s 20s"  # the last is longer than Apache's broker takes to stop
SETTINGS = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "messageDelayLevel": DELAY_LEVELS,
}


@pytest.fixture
def disk() -> Iterator[LocalDisk]:
    disk = LocalDisk()
    yield disk
    disk.close()


@pytest.fixture
def apache_broker(apache: Apache, tmp_path: Path) -> Iterator[Server]:
    """Apache's broker, not started, on the store directory of the test."""
    with apaches_broker_on(tmp_path / "store", apache, config=SETTINGS) as broker:
        yield broker


class Ours:
    """Our store, and the delivery of its delayed messages."""

    def __init__(self, store: MessageStore, delivery: DelayDelivery) -> None:
        self.store = store
        self._writer = MessageWriter(store, on_delayed=delivery.arrived)

    def send(self, text: str, level: int) -> None:
        properties = {b"TAGS": b"TagA", b"UNIQ_KEY": text.encode(), b"DELAY": b"%d" % level}
        sent = OutgoingMessage(
            topic=TOPIC, queue_id=0, body=text.encode(), properties=properties, born_ms=1, born_host=HOST
        )
        assert self._writer.put(sent).status is PutStatus.PUT_OK

    async def records(self, topic: str = TOPIC, queue_id: int = 0) -> list[Record]:
        found = await self.store.read_messages(topic, queue_id, 0, 32)
        assert found is not None
        return read_records(found.joined())


@asynccontextmanager
async def open_ours(disk: LocalDisk, root: Path) -> AsyncIterator[Ours]:
    config = StoreConfig(
        root_path=root,
        commit_log_file_bytes=1 << 20,
        index_slot_count=500,
        index_entry_count=2000,
        delay_levels=DELAY_LEVELS,
    )
    clock = SystemClock()
    async with (
        MessageStore.open(config, disk=disk, clock=clock, store_host=HOST) as store,
        DelayDelivery.open(store, store_host=HOST, disk=disk, clock=clock) as delivery,
    ):
        yield Ours(store, delivery)


async def test_delayed_messages_are_delivered_once_whoever_has_the_store_when_they_are_due(
    java: Driver, apache_broker: Server, disk: LocalDisk, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    offsets_file = root / "config" / "delayOffset.json"
    async with open_ours(disk, root) as ours:
        ours.send("by us", 1)
        ours.send("left to Apache", 2)
        await until(lambda: ours.store.max_offset(TOPIC, 0) == 1)
    assert offsets_file.read_bytes() == b'{\n\t"offsetTable":{1:1\n\t}\n}'

    apache_broker.start()
    queue = Queue(TOPIC, BROKER, 0)
    with (
        java.producer("exchange", namesrv=apache_broker.config["namesrvAddr"]) as producer,
        java.pull_consumer("exchange-readers", namesrv=apache_broker.config["namesrvAddr"]) as consumer,
    ):
        producer.create_topic(TOPIC, queues=1)
        wait_until(lambda: consumer.offsets(queue).max_offset == 2, timeout_s=30, what="Apache delivers what we left")
        producer.send(message(TOPIC, "by Apache", delay_level=1), queue=queue)
        wait_until(lambda: consumer.offsets(queue).max_offset == 3, timeout_s=30, what="Apache delivers its own")
        producer.send(message(TOPIC, "left to us", delay_level=4), queue=queue)
    apache_broker.stop()
    written = offsets_file.read_bytes()
    assert written == b'{\n\t"offsetTable":{1:2,2:1\n\t}\n}'
    assert write_pretty(decode_body(DelayOffsetTable, written)) == written

    async with open_ours(disk, root) as ours:
        await until(lambda: ours.store.max_offset(TOPIC, 0) == 4, seconds=40)
        records = await ours.records()
        waited = {
            record.body: record
            for level in (1, 2, 4)
            for record in await ours.records("SCHEDULE_TOPIC_XXXX", level - 1)
        }
    assert [record.body for record in records] == [b"by us", b"left to Apache", b"by Apache", b"left to us"]
    for record, delay_ms in zip(records, (1_000, 5_000, 1_000, 20_000), strict=True):
        assert record.store_ms >= waited[record.body].store_ms + delay_ms, "never early"
    kept = {"DELAY", "REAL_TOPIC", "REAL_QID"}
    assert all(kept <= record.properties.keys() for record in records), "as Apache leaves them"
    assert all(record.properties == waited[record.body].properties for record in records)
