"""The store against plain lists: random messages, reads, searches, checkpoints, restarts and kills."""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyrocketmq.hot import TagCodes
from skyrocketmq.store import GetStatus, MessageStore
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.reader import java_hash, read_record, read_records
from tests.store.support import (
    check,
    killed_store,
    memory_disk,
    new_message,
    open_store,
    put_batch,
    put_ok,
    store_config,
)

EVER = (0, 1 << 62)
LIVES = int(os.environ.get("STORE_LIVES", "60"))  # many more are part of `make chaos`
TAGS = ["", "TagA", "TagB"]


@dataclass
class Stored:
    body: bytes
    tags: str
    keys: str
    store_ms: int


@dataclass
class Model:
    """What a store should hold: a list a queue."""

    queues: dict[tuple[str, int], list[Stored]] = field(default_factory=lambda: defaultdict(list))
    count: int = 0


@dataclass
class Life:
    """One opening of the store, with the operations done in it."""

    operations: list[tuple[str, int, int, int]]
    is_killed: bool


def lives() -> st.SearchStrategy[list[Life]]:
    operation = st.tuples(
        st.sampled_from(["put", "put", "put", "batch", "read", "query", "time", "wait", "checkpoint"]),
        st.integers(0, 2),
        st.integers(0, 3),
        st.integers(0, 1200),
    )
    life = st.builds(Life, st.lists(operation, max_size=25), st.booleans())
    return st.lists(life, min_size=1, max_size=4)


class Run:
    def __init__(self) -> None:
        self.model = Model()
        self.clock = ManualClock()
        self.random = random.Random(5)

    async def do(self, store: MessageStore, operation: tuple[str, int, int, int]) -> None:
        kind, topic_number, queue_id, size = operation
        topic = f"T{topic_number}"
        if kind in ("put", "batch"):
            self.put(store, topic, queue_id, size, count=1 if kind == "put" else 3)
        elif kind == "read":
            await self.read(store, topic, queue_id)
        elif kind == "query":
            await self.query(store, topic)
        elif kind == "time":
            await self.search(store, topic, queue_id)
        elif kind == "wait":
            await self.clock.advance(size / 100)
        else:
            await store.checkpoint()

    def put(self, store: MessageStore, topic: str, queue_id: int, size: int, *, count: int) -> None:
        messages = []
        queue = self.model.queues[topic, queue_id]
        first = len(queue)
        for _ in range(count):
            number = self.model.count
            self.model.count += 1
            stored = Stored(b"%06d" % number + b"x" * size, TAGS[number % 3], f"k{number % 5}", self.clock.now_ms())
            queue.append(stored)
            messages.append(new_message(topic, queue_id, stored.body, tags=stored.tags, keys=stored.keys))
        if count == 1:
            result, places = put_ok(store, messages[0]), [0]
        else:
            result, places = put_batch(store, messages)
        assert (result.queue_offset, len(places)) == (first, count)

    async def read(self, store: MessageStore, topic: str, queue_id: int) -> None:
        queue = self.model.queues[topic, queue_id]
        assert store.max_offset(topic, queue_id) == len(queue)
        tags = self.random.choice(TAGS)
        codes = TagCodes({java_hash(tags)}) if tags else None
        offset = 0
        found: list[bytes] = []
        while offset < len(queue):
            result = await store.read_messages(topic, queue_id, offset, 7, tags=codes)
            assert result is not None
            assert result.status in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE)
            assert result.next_offset > offset
            found += [record.body for record in read_records(result.joined())]
            offset = result.next_offset
        assert found == [each.body for each in queue if not tags or each.tags == tags]

    async def query(self, store: MessageStore, topic: str) -> None:
        key = f"k{self.random.randrange(5)}"
        expected = sorted(
            each.body
            for (name, _), queue in self.model.queues.items()
            for each in queue
            if name == topic and each.keys == key
        )
        found = await store.query(topic, key, 64, *EVER)
        assert sorted(read_record(bytes(record)).body for record in found.records) == expected[-64:]

    async def search(self, store: MessageStore, topic: str, queue_id: int) -> None:
        queue = self.model.queues[topic, queue_id]
        if queue:
            wanted = self.random.randrange(queue[0].store_ms - 5000, queue[-1].store_ms + 5000)
            offset = await store.offset_by_time(topic, queue_id, wanted)
            nearest = min(abs(each.store_ms - wanted) for each in queue)
            assert abs(queue[offset].store_ms - wanted) == nearest


async def run_lives(lives: list[Life]) -> FaultyDisk:
    run = Run()
    disk = memory_disk()
    for life in lives:
        opened = killed_store if life.is_killed else open_store
        async with opened(disk, clock=run.clock) as store:
            for topic, queue_id in list(run.model.queues):
                await run.read(store, topic, queue_id)
            for operation in life.operations:
                await run.do(store, operation)
        if life.is_killed:
            disk = disk.after_power_loss(keep=True)
    async with open_store(disk, clock=run.clock):
        pass
    content = check(disk)
    for (topic, queue_id), queue in run.model.queues.items():
        assert [record.body for record in content.of_queue(topic, queue_id)] == [each.body for each in queue]
    return disk


@pytest.mark.timeout(60 + LIVES)
@settings(max_examples=LIVES, suppress_health_check=[HealthCheck.too_slow])
@given(lives())
def test_the_store_behaves_like_lists_over_restarts_and_kills(lives: list[Life]) -> None:
    asyncio.run(run_lives(lives))


async def test_a_thousand_queues_are_kept_with_few_files_open() -> None:
    disk = memory_disk()
    config = store_config(commit_log_file_bytes=1 << 20, index_entry_count=3000)
    clock = ManualClock()
    async with open_store(disk, config, clock=clock) as store:
        for number in range(2000):
            put_ok(store, new_message(f"T{number % 100}", number % 1000 // 100, b"%d" % number))
        await clock.advance(2)
        assert len(store.queues._open_files) <= 256
        assert store.max_offset("T7", 3) == 2
    async with open_store(disk, config) as store:
        found = await store.read_messages("T7", 3, 0, 10)
        assert found is not None
        assert [record.body for record in read_records(found.joined())] == [b"307", b"1307"]
    check(disk, config)
