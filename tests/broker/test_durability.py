"""When a stored message is safe enough: with each flush and each role, and whatever fails."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from skyrocketmq.broker.durability import Durability
from skyrocketmq.config import BrokerRole, FlushDiskType
from skyrocketmq.ha import Replicas
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.testing import ManualClock
from tests.store.support import memory_disk, new_message, open_store, put_ok, store_config

OK, LATE_DISK, LATE_SLAVE = PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT, PutStatus.FLUSH_SLAVE_TIMEOUT


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("is_replicated", [False, True])
async def test_a_sender_waits_for_just_what_is_promised(is_flushed: bool, is_replicated: bool) -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    config = store_config(
        flush_disk_type=FlushDiskType.SYNC_FLUSH if is_flushed else FlushDiskType.ASYNC_FLUSH,
        broker_role=BrokerRole.SYNC_MASTER if is_replicated else BrokerRole.ASYNC_MASTER,
    )
    async with open_store(disk, config, clock=clock) as store, AsyncExitStack() as at_end:
        replicas = Replicas(clock=clock, timeout_ms=3000, lag_bytes_max=1 << 20)
        replicas.report("a", 0)
        durability = Durability(store, replicas)
        assert durability.is_at_once == (not is_flushed and not is_replicated)
        at_end.callback(disk.heal)
        disk.stall("fdatasync", seconds=1, times=None)
        put_ok(store, new_message())
        end = int(store.log.max_offset)
        told: list[PutStatus] = []
        durability.when_safe(end, told.append)
        waiter = asyncio.create_task(durability.wait_safe(end))
        await asyncio.sleep(0)
        assert told == ([OK] if durability.is_at_once else [])
        await clock.advance(2)
        assert (store.log.flushed_offset if is_flushed else end) == end
        assert told == ([] if is_replicated else [OK]), "the disk alone has it, the slave not yet"
        assert waiter.done() == (not is_replicated)
        replicas.report("a", end)
        assert (told, await waiter) == ([OK], OK)
        replicas.close()


@pytest.mark.parametrize("is_slave_first", [False, True])
@pytest.mark.parametrize(
    ("disk_says", "slave_says", "told"),
    [
        (OK, OK, OK),
        (OK, LATE_SLAVE, LATE_SLAVE),
        (LATE_DISK, OK, LATE_DISK),
        (LATE_DISK, LATE_SLAVE, LATE_DISK),  # a slave gets only what is on the disk
    ],
)
async def test_where_both_are_waited_for_the_later_one_decides_and_the_disk_is_to_blame_first(
    disk_says: PutStatus, slave_says: PutStatus, told: PutStatus, is_slave_first: bool
) -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    config = store_config(
        flush_disk_type=FlushDiskType.SYNC_FLUSH, broker_role=BrokerRole.SYNC_MASTER, sync_flush_timeout_ms=5000
    )
    async with open_store(disk, config, clock=clock) as store, AsyncExitStack() as at_end:
        slave_timeout_ms = 2000 if is_slave_first else 8000
        replicas = Replicas(clock=clock, timeout_ms=slave_timeout_ms, lag_bytes_max=1 << 20)
        replicas.report("a", 0)
        durability = Durability(store, replicas)
        at_end.callback(disk.heal)
        disk.stall("fdatasync", seconds=4 if disk_says is OK else 6, times=None)
        put_ok(store, new_message())
        end = int(store.log.max_offset)
        heard: list[PutStatus] = []
        durability.when_safe(end, heard.append)
        if slave_says is OK:
            if not is_slave_first:
                await clock.advance(5)
            replicas.report("a", end)
        await clock.advance(10)
        assert heard == [told]
        replicas.close()
