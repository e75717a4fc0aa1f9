"""Messages that wait in memory before they are written: seen by nobody, written soon, never taken back."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from skyrocketmq.config import BrokerRole, FlushDiskType
from skyrocketmq.store import Arrival, GetStatus, PutStatus, RunningFlag
from skyrocketmq.testing.clock import ManualClock
from tests.store.reader import read_records
from tests.store.support import check, killed_store, memory_disk, new_message, open_store, put_ok, store_config

POOL = store_config(
    transient_pool_enable=True, commit_log_file_bytes=1 << 20, queue_file_bytes=20 * 1000, index_entry_count=3000
)
EVER = (0, 1 << 62)


async def test_what_waits_in_the_pool_is_acknowledged_and_seen_by_nobody_until_it_is_written() -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, POOL, clock=clock) as store:
        arrivals: list[Arrival] = []
        store.on_arrival = arrivals.extend
        store.queue("T", 0).is_watched = True
        first = put_ok(store, new_message("T", 0, b"one", keys="k"))
        second = put_ok(store, new_message("T", 0, b"two", keys="k"))
        assert (first.queue_offset, second.queue_offset) == (0, 1)
        assert second.log_offset > first.log_offset == 0
        assert store.log.max_offset == 0
        assert store.max_offset("T", 0) == 0
        found = await store.read_messages("T", 0, 0, 10)
        assert found is not None
        assert found.status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert (await store.query("T", "k", 10, *EVER)).records == ()
        assert await store.message_at(0) is None
        assert arrivals == []
        await clock.advance(0.21)
        assert store.max_offset("T", 0) == 2
        found = await store.read_messages("T", 0, 0, 10)
        assert found is not None
        assert [record.body for record in read_records(found.joined())] == [b"one", b"two"]
        assert len((await store.query("T", "k", 10, *EVER)).records) == 2
        assert [arrival.max_offset for arrival in arrivals] == [1, 2]
        put_ok(store, new_message("T", 0, b"three"))
        assert store.max_offset("T", 0) == 2, "the earlier ones stay seen"
        assert disk.count("pwrite", "*/commitlog/*") == 1
    assert len(check(disk, POOL).records) == 3


async def test_four_pages_are_written_at_once() -> None:
    async with open_store(memory_disk(), POOL) as store:
        put_ok(store, new_message(body=b"x" * 10_000))
        assert store.log.max_offset == 0
        put_ok(store, new_message(body=b"x" * 10_000))
        assert store.max_offset("TopicTest", 0) == 2
        store.apply_config(store_config(transient_pool_enable=True, commit_least_pages=1))
        put_ok(store, new_message(body=b"x" * 5_000))
        assert store.max_offset("TopicTest", 0) == 3


async def test_the_pool_is_written_before_the_log_goes_on_in_the_next_file() -> None:
    disk = memory_disk()
    config = store_config(transient_pool_enable=True, commit_least_pages=1000)
    async with open_store(disk, config) as store:
        for number in range(20):
            put_ok(store, new_message("T", number % 2, b"%03d" % number + b"x" * 900))
        assert store.log.max_offset >= 4 * 4096
    assert [int(record.body[:3]) for record in check(disk, config).records] == list(range(20))


async def test_a_pool_that_cannot_be_written_keeps_what_was_acknowledged_and_takes_no_more() -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, POOL, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"first"))
        disk.fail("pwrite", path="*/commitlog/*", error=errno.EIO, times=None)
        await clock.advance(5)
        assert store.state.flags & RunningFlag.POOL_WRITE_ERROR
        refused = store.put(new_message("T", 0, b"refused"))
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "transient pool" in refused.remark
        disk.heal()
        await clock.advance(0.3)
        assert store.max_offset("T", 0) == 1
        assert put_ok(store, new_message("T", 0, b"second")).queue_offset == 1
    assert [record.body for record in check(disk, POOL).records] == [b"first", b"second"]


async def test_a_clean_stop_writes_the_pool_and_a_kill_loses_it_and_nothing_else() -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, POOL, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"kept"))
    async with killed_store(disk, POOL, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"written"))
        await clock.advance(0.3)
        put_ok(store, new_message("T", 0, b"lost"))
    disk = disk.after_power_loss(keep=True)
    async with open_store(disk, POOL, clock=clock) as store:
        assert store.max_offset("T", 0) == 2
        assert put_ok(store, new_message("T", 0, b"after")).queue_offset == 2
    assert [record.body for record in check(disk, POOL).records] == [b"kept", b"written", b"after"]


@pytest.mark.parametrize(
    "changes", [{"flush_disk_type": FlushDiskType.SYNC_FLUSH}, {"broker_role": BrokerRole.SLAVE}], ids=["sync", "slave"]
)
async def test_with_synchronous_flush_and_on_slaves_there_is_no_pool(changes: dict[str, Any]) -> None:
    config = store_config(transient_pool_enable=True, **changes)
    assert not config.uses_transient_pool
