"""Stores for the tests of the store reader, and reading them without a JVM: all that Spark would call, called here."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import Filter, InputPartition
from pyspark.sql.types import StructType

from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import LocalDisk
from skyrocketmq.spark.store_source import RocketMQStoreDataSource
from skyrocketmq.store import MessageStore
from skyrocketmq.testing.clock import ManualClock
from tests.store.reader import Record, read_log
from tests.store.support import HOST_V6, new_message, open_store, put_ok, sizes_of, store_config, unique_id

LOG_FILE_BYTES = 64 * 1024
TOPICS = ("Orders", "Payments", "Rare")


def config_of(root: Path, **changes: Any) -> StoreConfig:
    sizes = {
        "commit_log_file_bytes": LOG_FILE_BYTES,
        "queue_file_bytes": 20 * 50,
        "index_slot_count": 50,
        "index_entry_count": 200,
    }
    return store_config(root, **(sizes | changes))


def make_store(root: Path, count: int = 600, **changes: Any) -> list[Record]:
    """A store with messages of three topics, closed; returns what an independent reader finds in its log."""
    root.mkdir(parents=True, exist_ok=True)
    disk, clock = LocalDisk(), ManualClock()

    async def fill() -> None:
        async with open_store(disk, config_of(root, **changes), clock=clock) as store:
            await put_many(store, clock, count)

    try:
        asyncio.run(fill())
        return read_log(disk, root, sizes_of(config_of(root, **changes)))[0]
    finally:
        disk.close()


async def put_many(store: MessageStore, clock: ManualClock, count: int, *, first: int = 0) -> None:
    chance = random.Random(first)
    for number in range(first, first + count):
        topic = "Rare" if number % 50 == 49 else TOPICS[number % 2]
        put_ok(
            store,
            new_message(
                topic,
                number % 4 // 2,
                chance.randbytes(chance.choice([0, 10, 400])) + b"%d" % number,
                tags=("TagA", "TagB", "")[number % 3],
                keys=f"key-{number}",
                unique=unique_id(number),
                **({"born_host": HOST_V6, "sys_flag": 0x10} if number % 10 == 0 else {}),
            ),
        )
        if number % 10 == 0:
            await clock.advance(10)


def read_rows(
    root: Path | str, *filters: Filter, schema: StructType | None = None, **options: Any
) -> list[dict[str, Any]]:
    reader, partitions = plan(root, *filters, schema=schema, **options)
    return [row for one in partitions for batch in reader.read(one) for row in _rows(batch)]


def plan(
    root: Path | str, *filters: Filter, schema: StructType | None = None, **options: Any
) -> tuple[Any, Sequence[InputPartition]]:
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    source = RocketMQStoreDataSource({"path": str(root), **texts})
    reader = source.reader(schema or source.schema())
    assert list(reader.pushFilters(list(filters))) == list(filters), "every filter is left to Spark as well"
    return reader, reader.partitions()


def _rows(batch: Any) -> list[dict[str, Any]]:
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows
