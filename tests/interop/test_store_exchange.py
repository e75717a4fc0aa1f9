"""One store directory, two brokers in turn: Apache's files are read by our store, ours by Apache's broker.

After a clean stop and after a kill, both ways: messages, queue offsets, keys and ids are all there, and the next owner
goes on with the next offset. The store is used alone here; our broker around it has tests of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.store import MessageStore, NewMessage, PutStatus
from tests.interop.apache import Apache, Server
from tests.interop.driver import Driver, Queue, message
from tests.interop.exchange import SIZES, apaches_broker_on
from tests.store.reader import Content, check_index, check_queues, read_log, read_queues, read_record

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "Exchange"
QUEUES = 4
EVER = (0, 1 << 62)


@pytest.fixture
def disk() -> Iterator[LocalDisk]:
    disk = LocalDisk()
    yield disk
    disk.close()


@pytest.fixture
def apache_broker(apache: Apache, tmp_path: Path) -> Iterator[Server]:
    """Apache's broker, not started, on the store directory of the test."""
    with apaches_broker_on(tmp_path / "store", apache) as broker:
        yield broker


@asynccontextmanager
async def our_store(disk: LocalDisk, root: Path) -> AsyncIterator[MessageStore]:
    config = StoreConfig(
        root_path=root,
        commit_log_file_bytes=SIZES.log_file,
        queue_file_bytes=SIZES.queue_file,
        index_slot_count=SIZES.slots,
        index_entry_count=SIZES.entries,
    )
    host = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
    async with MessageStore.open(config, disk=disk, clock=SystemClock(), store_host=host) as store:
        yield store


def text_of(number: int) -> str:
    return f"{number:05d}" + "." * 600


def apache_sends(java: Driver, broker: Server, first: int, count: int) -> None:
    with java.producer("exchange", namesrv=broker.config["namesrvAddr"]) as producer:
        if first == 0:
            producer.create_topic(TOPIC, queues=QUEUES)
        for number in range(first, first + count):
            queue = Queue(TOPIC, "exchange", number % QUEUES)
            producer.send(message(TOPIC, text_of(number), tags="TagA", keys=f"key-{number}"), queue=queue)


def we_send(store: MessageStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        properties = f"KEYS\x01key-{number}\x02UNIQ_KEY\x017F0000010000000000000000{number:08X}\x02TAGS\x01TagA"
        result = store.put(
            NewMessage(
                topic=TOPIC,
                queue_id=number % QUEUES,
                body=text_of(number).encode(),
                properties=properties.encode(),
                born_timestamp=1_700_000_000_000,
                born_host=bytes([127, 0, 0, 1, 0, 0, 0, 1]),
            )
        )
        assert result.status is PutStatus.PUT_OK
        assert result.queue_offset == number // QUEUES


async def check_our_view(store: MessageStore, count: int) -> None:
    """Every message is read from its queue, and found by its key."""
    for queue_id in range(QUEUES):
        assert store.max_offset(TOPIC, queue_id) == count // QUEUES
    for number in range(0, count, 37):
        found = await store.query(TOPIC, f"key-{number}", 32, *EVER)
        assert text_of(number).encode() in [read_record(bytes(record)).body for record in found.records]
        result = await store.read_messages(TOPIC, number % QUEUES, number // QUEUES, 1)
        assert result is not None
        assert read_record(result.joined()).body == text_of(number).encode()


def check_apache_s_view(java: Driver, broker: Server, count: int) -> None:
    """The same through Apache's broker and client."""
    with java.pull_consumer("exchange-readers", namesrv=broker.config["namesrvAddr"]) as consumer:
        for queue_id in range(QUEUES):
            queue = Queue(TOPIC, "exchange", queue_id)
            assert consumer.offsets(queue).max_offset == count // QUEUES
            offset = 0
            bodies: list[str] = []
            while offset < count // QUEUES:
                pulled = consumer.pull(queue, offset=offset)
                bodies += [received.text for received in pulled.messages]
                assert pulled.next_offset > offset
                offset = pulled.next_offset
            assert bodies == [text_of(number) for number in range(queue_id, count, QUEUES)]
        for number in range(0, count, 37):
            found = consumer.query(TOPIC, f"key-{number}", max_count=32)
            assert text_of(number) in [received.text for received in found]


def read_directory(disk: LocalDisk, root: Path) -> Content:
    """What our independent reader finds, every byte checked."""
    records, end = read_log(disk, root, SIZES)
    queues = read_queues(disk, root, SIZES)
    check_queues(records, queues)
    check_index(disk, root, SIZES, records)
    return Content(records, end, queues, (0, 0, 0))


async def test_stores_are_exchanged_after_clean_stops(
    apache_broker: Server, java: Driver, disk: LocalDisk, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    apache_broker.start()
    apache_sends(java, apache_broker, 0, 1000)
    apache_broker.stop()
    theirs = read_directory(disk, root)
    assert len(theirs.of_queue(TOPIC, 0)) == 1000 // QUEUES
    async with our_store(disk, root) as store:
        assert store.recovered.rebuilt_queues == []
        assert not store.recovered.index_rebuilt
        await check_our_view(store, 1000)
        we_send(store, 1000, 1000)
    read_directory(disk, root)
    apache_broker.start()
    check_apache_s_view(java, apache_broker, 2000)
    apache_sends(java, apache_broker, 2000, 200)
    apache_broker.stop()
    async with our_store(disk, root) as store:
        await check_our_view(store, 2200)


async def test_stores_are_exchanged_after_kills(
    apache_broker: Server, java: Driver, disk: LocalDisk, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    apache_broker.start()
    apache_sends(java, apache_broker, 0, 1000)
    apache_broker.kill()
    async with our_store(disk, root) as store:
        await check_our_view(store, 1000)
        we_send(store, 1000, 1000)
        # What a kill at this moment leaves: the files as they are, our process none the wiser.
        shutil.copytree(root, tmp_path / "killed")
    shutil.rmtree(root)
    (tmp_path / "killed").rename(root)
    assert (root / "abort").exists()
    apache_broker.start()
    check_apache_s_view(java, apache_broker, 2000)
    apache_sends(java, apache_broker, 2000, 200)
    apache_broker.kill()
    async with our_store(disk, root) as store:
        await check_our_view(store, 2200)
