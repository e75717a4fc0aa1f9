"""A write to the log that fails may have written none of its bytes, some, or all: its messages do not exist."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.errors import FlushFailed
from skyrocketmq.store import Arrival, PutStatus
from skyrocketmq.testing.clock import ManualClock
from tests.store.support import check, killed_store, memory_disk, new_message, open_store, put_ok

LOG = "*/commitlog/*"


@pytest.mark.parametrize("wiped", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("written", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("has_more", [False, True])
async def test_what_a_failed_write_left_never_comes_to_life(written: float, wiped: float, has_more: bool) -> None:
    """Also if wiping it fails as well: the next append covers it."""
    disk = memory_disk()
    async with killed_store(disk) as store:
        put_ok(store, new_message("T", 0, b"first"))
        disk.fail("pwrite", path=LOG, written=written)
        disk.fail("pwrite", path=LOG, after=1, written=wiped)
        entries = [(0, b"never" * 20, b""), (0, b"never" * 20, b"")]
        result, _ = store.put_batch(new_message("T", 0), entries)
        assert result.status is not PutStatus.PUT_OK
        if has_more:
            put_ok(store, new_message("T", 0, b"next!" * 20))  # as long as the first: the second would follow it
        else:
            await store.checkpoint()  # which wipes it
        assert store.max_offset("T", 0) == 1 + has_more
    found = disk.after_kill()
    async with open_store(found):
        pass
    assert [record.body for record in check(found).records] == [b"first", b"next!" * 20][: 1 + has_more]


async def test_nobody_is_woken_for_messages_that_were_not_stored() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        told: list[Arrival] = []
        store.on_arrival = told.extend
        store.queue("T", 0).is_watched = True
        disk.fail("pwrite", path=LOG)
        assert store.put(new_message("T", 0, b"never")).status is not PutStatus.PUT_OK
        assert told == []
        put_ok(store, new_message("T", 0, b"stored"))
        assert [arrival.max_offset for arrival in told] == [1]


async def test_a_listener_that_stores_something_does_not_change_what_the_sender_is_told() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        store.queue("T", 0).is_watched = True
        stored: list[PutStatus] = []
        put_ok(store, new_message("Other", 0, b"makes room"))
        store.on_arrival = lambda arrivals: stored.append(store.put(new_message("Other", 0, b"x")).status)
        message = new_message("T", 0, b"x" * 1500)
        batch = store.begin()
        for _ in range(2):
            batch.add(message)
        disk.fail("pwrite", path=LOG, after=2)  # the first file takes what fits, and its end; the next fails
        batch.add(message)
        outcome = batch.commit()
        assert outcome.refusal is not None
        assert "could not be written" in outcome.refusal.remark
        assert store.max_offset("T", 0) == 2
        assert stored == [PutStatus.PUT_OK]


async def test_a_sync_that_fails_while_a_checkpoint_syncs_queues_is_seen_before_it_is_written() -> None:
    """The log is flushed by another at the same time, and that fails: the checkpoint would vouch for what is gone."""
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with open_store(disk, clock=clock) as store:
        for number in range(30):
            put_ok(store, new_message("T", number % 3, b"x"))
        disk.stall("fdatasync", path="*/consumequeue/*", seconds=5)
        making = asyncio.ensure_future(store.checkpoint())
        await clock.settle()
        put_ok(store, new_message("T", 0, b"later"))
        disk.fail("fdatasync", path=LOG)
        with pytest.raises(FlushFailed):
            await store.flush()
        before = disk.count("pwrite", "*/checkpoint")
        await clock.advance(6)
        with pytest.raises(FlushFailed):
            await making
        assert disk.count("pwrite", "*/checkpoint") == before
