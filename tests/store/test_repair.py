"""Repairs never make a store worse: not without the lock, not without the log, and not when they are cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyrocketmq.errors import StoreError, StoreLocked
from skyrocketmq.store import MessageStore
from skyrocketmq.store.dumping import dump
from skyrocketmq.store.file_rows import make_directories
from skyrocketmq.store.inspection import inspect
from skyrocketmq.store.repair import RepairPlan, plan_repair, repair
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.reader import read_log
from tests.store.support import (
    ROOT,
    check,
    killed_store,
    memory_disk,
    new_message,
    open_store,
    put_ok,
    sizes_of,
    store_config,
    unique_id,
)

CONFIG = store_config()
ALL = RepairPlan(configs=("topics.json",), queues=(("T0", 0), ("T1", 1)), index=True, opens=True)


def fill(store: MessageStore, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        message = new_message(
            f"T{number % 2}", number % 2, b"%05d" % number + b"." * 90, keys=f"k{number}", unique=unique_id(number)
        )
        put_ok(store, message)


async def filled(count: int = 40) -> FaultyDisk:
    """A store that was closed in order, with a configuration file."""
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        fill(store, count)
    make_directories(disk, ROOT / "config")
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


def overwrite(disk: FaultyDisk, path: Path, position: int, data: bytes) -> None:
    file = disk.open(path)
    file.pwrite(data, position)
    file.fdatasync()
    file.close()


def break_queues_index_and_config(disk: FaultyDisk) -> None:
    overwrite(disk, ROOT / "consumequeue" / "T0" / "0" / ("0" * 20), 40, b"\0\0\0\0\0\0\1\1")
    overwrite(disk, ROOT / "consumequeue" / "T1" / "1" / f"{200:020d}", 20, bytes(40))
    overwrite(disk, ROOT / "index" / disk.list(ROOT / "index")[0], 40, bytes(28))
    overwrite(disk, ROOT / "config" / "topics.json", 0, b"\0\0\0")


def lose_queues_and_index(disk: FaultyDisk) -> None:
    for directory in (ROOT / "consumequeue" / "T0" / "0", ROOT / "index"):
        for name in disk.list(directory):
            disk.unlink(directory / name)
        disk.sync_directory(directory)


def leave_as_apache_does(disk: FaultyDisk) -> None:
    break_queues_index_and_config(disk)
    disk.unlink(ROOT / "checkpoint.json")
    disk.sync_directory(ROOT)


def crash(disk: FaultyDisk) -> None:
    break_queues_index_and_config(disk)
    disk.open(ROOT / "abort", create=True).close()
    disk.sync_directory(ROOT)


async def mended(disk: FaultyDisk) -> None:
    report = inspect(disk, CONFIG)
    await repair(plan_repair(report), CONFIG, disk=disk, clock=ManualClock())
    # Numbers that a power cut made a queue skip are told too; they are no damage.
    assert [finding for finding in inspect(disk, CONFIG).findings if finding.is_damage or finding.can_repair] == []


@pytest.mark.parametrize("harm", [break_queues_index_and_config, lose_queues_and_index, leave_as_apache_does, crash])
@pytest.mark.parametrize("is_started", [False, True], ids=["then a repair", "then a start"])
async def test_a_repair_may_be_cut_off_at_any_disk_call(harm: Callable[[FaultyDisk], None], is_started: bool) -> None:
    """A start finds nothing worse than it was before the repair; another repair mends the rest."""
    disk = await filled()
    harm(disk)
    plan = plan_repair(inspect(disk, CONFIG))
    disk = disk.after_power_loss()
    probe = disk.after_power_loss()
    await repair(plan, CONFIG, disk=probe, clock=ManualClock())
    for crash_at in range(len(probe.calls)):
        first = disk.after_power_loss()
        first.crash_at = crash_at
        with pytest.raises(PowerLost):
            await repair(plan, CONFIG, disk=first, clock=ManualClock())
        for survivor in (first.after_power_loss(crash_at), first.after_power_loss(keep=crash_at % 2 == 0)):
            try:
                if is_started:
                    async with open_store(survivor, CONFIG) as store:
                        assert put_ok(store, new_message("T0", 0, b"00040")).queue_offset >= 20
                    left = plan_repair(inspect(survivor, CONFIG))
                    assert set(left.queues) <= set(plan.queues)
                    assert set(left.configs) <= set(plan.configs)
                    assert left.index <= plan.index
                await mended(survivor)
                async with open_store(survivor, CONFIG):
                    pass
                numbers = [int(record.body[:5]) for record in check(survivor, CONFIG).records]
                assert numbers == list(range(41 if is_started else 40))
            except BaseException as error:
                error.add_note(f"crash_at={crash_at} of {len(probe.calls)}, calls={first.calls[-3:]}")
                raise


async def crashed_with_a_bad_record(*, number: int) -> FaultyDisk:
    """Forty messages, a checkpoint after the twentieth, a crash, and one message that the disk has changed."""
    disk = memory_disk()
    clock = ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        fill(store, 15)
        await clock.advance(1)
        fill(store, 5, first=15)
        await store.checkpoint()
        fill(store, 20, first=20)
    disk = disk.after_power_loss(keep=True)
    bad = read_log(disk, ROOT, sizes_of(CONFIG))[0][number]
    path = ROOT / "commitlog" / f"{bad.log_offset // 4096 * 4096:020d}"
    overwrite(disk, path, bad.log_offset % 4096 + 95, b"!!")
    return disk


@pytest.mark.parametrize("has_snapshot", [True, False], ids=["ours", "as Apache leaves it"])
@pytest.mark.parametrize(("number", "is_cut"), [(10, False), (30, True)], ids=["below the checkpoint", "above it"])
async def test_a_check_tells_what_the_next_start_does_with_a_damaged_message(
    number: int, is_cut: bool, has_snapshot: bool
) -> None:
    disk = await crashed_with_a_bad_record(number=number)
    if not has_snapshot:
        disk.unlink(ROOT / "checkpoint.json")
    report = inspect(disk, CONFIG)
    told = [finding.what for finding in report.findings if "next start takes this" in finding.what]
    assert told == ["the next start takes this for the torn end, and cuts off 9 good messages behind it"] * is_cut
    started, repaired = disk.after_power_loss(keep=True), disk.after_power_loss(keep=True)
    async with open_store(started, CONFIG):
        pass
    expected = [other for other in range(40) if other != number]
    assert stored(started) == (list(range(30)) if is_cut else expected)
    await repair(plan_repair(report), CONFIG, disk=repaired, clock=ManualClock())
    assert stored(repaired) == expected
    assert not inspect(repaired, CONFIG).is_cut_by_next_start


def stored(disk: FaultyDisk) -> list[int]:
    return [int(message.body[:5]) for message in dump(disk, CONFIG)]


async def test_a_check_and_a_repair_tell_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyrocketmq.store.progress.told.__kwdefaults__", {"every": 1000})
    disk = await filled()
    lose_queues_and_index(disk)
    checking: list[tuple[int, int]] = []
    report = inspect(disk, CONFIG, progress=lambda done, total: checking.append((done, total)))
    mending: list[tuple[int, int]] = []
    await repair(
        plan_repair(report),
        CONFIG,
        disk=disk,
        clock=ManualClock(),
        progress=lambda done, total: mending.append((done, total)),
    )
    passes = "".join("." if done < total else "|" for done, total in mending)
    assert checking == sorted(checking)
    assert len(checking) > 3  # a file each, and the end
    assert checking[-1] == (3 * 4096, 3 * 4096)
    assert passes[-1] == "|"
    assert ".." in passes, "the log is read to build queues and index, and that is told"
