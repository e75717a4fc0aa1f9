"""Repairs never make a store worse: not without the lock, not without the log, and not when they are cut off."""

from __future__ import annotations

import pytest

from skyrocketmq.errors import StoreError, StoreLocked
from skyrocketmq.store import MessageStore
from skyrocketmq.store.inspection import inspect
from skyrocketmq.store.repair import RepairPlan, plan_repair, repair
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.support import ROOT, check, memory_disk, new_message, open_store, put_ok, store_config, unique_id

CONFIG = store_config()
ALL = RepairPlan(configs=("topics.json",), queues=(("T0", 0), ("T1", 1)), index=True, opens=True)


def fill(store: MessageStore, count: int) -> None:
    for number in range(count):
        message = new_message(
            f"T{number % 2}", number % 2, b"%05d" % number + b"." * 90, keys=f"k{number}", unique=unique_id(number)
        )
        put_ok(store, message)


async def filled(count: int = 40) -> FaultyDisk:
    """A store that was closed in order, with a configuration file."""
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        fill(store, count)
    disk.make_directories(ROOT / "config")
    disk.replace(ROOT / "config" / "topics.json", b"{}")
    disk.replace(ROOT / "config" / "topics.json", b'{"dataVersion":{}}', keep_backup=True)
    return disk


def writes(disk: FaultyDisk) -> list[object]:
    names = {"pwrite", "truncate", "allocate", "rename", "unlink", "create"}
    return [call for call in disk.calls if call.operation in names]


async def test_a_repair_takes_the_lock_before_it_writes_anything() -> None:
    disk = await filled()
    lock = disk.lock(ROOT / "lock")
    before = writes(disk)
    with pytest.raises(StoreLocked):
        await repair(ALL, CONFIG, disk=disk, clock=ManualClock())
    assert writes(disk) == before
    lock.release()
    await repair(ALL, CONFIG, disk=disk, clock=ManualClock())
    assert not disk.exists(ROOT / "repair-plan.json")
    disk.lock(ROOT / "lock").release()


async def test_a_repair_leaves_the_lock_to_the_caller_who_holds_it() -> None:
    disk = await filled()
    lock = disk.lock(ROOT / "lock")
    await repair(ALL, CONFIG, disk=disk, clock=ManualClock(), lock=lock)
    with pytest.raises(StoreLocked):
        disk.lock(ROOT / "lock")
    lock.release()
    assert len(check(disk, CONFIG).records) == 40


async def test_a_repair_never_begins_an_empty_log() -> None:
    disk = await filled()
    for name in disk.list(ROOT / "commitlog"):
        disk.unlink(ROOT / "commitlog" / name)
    before = writes(disk)
    with pytest.raises(StoreError, match="there is no log"):
        inspect(disk, CONFIG)
    with pytest.raises(StoreError, match="there is no log"):
        await repair(ALL, CONFIG, disk=disk, clock=ManualClock())
    assert [call for call in writes(disk)[len(before) :] if "lock" not in str(call)] == []


async def test_a_store_that_never_had_a_message_is_intact() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG):
        pass
    report = inspect(disk, CONFIG)
    assert report.is_intact
    await repair(plan_repair(report), CONFIG, disk=disk, clock=ManualClock())
    assert inspect(disk, CONFIG).is_intact
