"""A sync that failed: what the page cache holds may never reach the disk, however often it is synced again."""

from __future__ import annotations

import errno

import pytest

from skyrocketmq.errors import StoreError
from skyrocketmq.store import GetStatus
from skyrocketmq.testing import ManualClock
from tests.store.support import memory_disk, new_message, open_store, put_ok


@pytest.mark.parametrize("seed", range(5))
async def test_what_a_failed_sync_left_in_memory_only_is_written_by_the_next_start(seed: int) -> None:
    disk = memory_disk()
    async with open_store(disk, clock=ManualClock()) as store:
        put_ok(store, new_message(body=b"first"))
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        put_ok(store, new_message(body=b"second"))
        disk.fail("fdatasync", path="*/commitlog/*", error=errno.EIO)
        with pytest.raises(StoreError):
            await store.flush()
        assert store.refusal is not None
    async with open_store(disk, clock=ManualClock()):
        pass  # found in the page cache, and stopped in order
    disk = disk.after_power_loss(seed)
    async with open_store(disk, clock=ManualClock()) as store:
        found = await store.read_messages("TopicTest", 0, 0, 10)
        assert found is not None
        assert found.status is GetStatus.FOUND
        assert found.count == 2
