"""A bad record behind the checkpoint: what was synced is kept behind it, what was not is the torn end of the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skyrocketmq.config import FlushDiskType
from skyrocketmq.store.checkpoint import CheckpointTimes
from skyrocketmq.store.flush_mark import MARK_BYTES, FlushMark
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.reader import Record, read_log
from tests.store.support import ROOT, killed_store, memory_disk, new_message, open_store, put_ok, sizes_of, store_config

CONFIG = store_config(flush_disk_type=FlushDiskType.SYNC_FLUSH, commit_log_file_bytes=8192, queue_file_bytes=2000)
PATH = Path("/store/flushed")


async def killed(*, has_checkpoint: bool, flushed: int = 30, unflushed: int = 0) -> tuple[FaultyDisk, list[Record]]:
    """The disk of a store that was killed: one message and a checkpoint, messages that were synced, and some not."""
    disk = memory_disk()
    clock = ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"first"))
        if has_checkpoint:
            await store.checkpoint()
        for number in range(flushed):
            put_ok(store, new_message("T", number % 2, b"%02d" % number + b"." * 100, keys=f"k{number}"))
        await store.flush()
        for _ in range(unflushed):
            put_ok(store, new_message("T", 0, b"unflushed" * 10))
    disk = disk.after_power_loss(keep=True)
    return disk, read_log(disk, ROOT, sizes_of(CONFIG), until_bad=True)[0]


def damage(disk: FaultyDisk, record: Record) -> None:
    file = disk.open(ROOT / "commitlog" / f"{record.log_offset // 8192 * 8192:020d}")
    at = record.log_offset % 8192 + 95
    file.pwrite(bytes([file.pread(1, at)[0] ^ 0x55]), at)
    file.fdatasync()
    file.close()


@pytest.mark.parametrize("has_checkpoint", [True, False], ids=["checkpoint", "new store"])
async def test_synced_messages_behind_a_bad_record_are_kept_though_no_checkpoint_covers_them(
    has_checkpoint: bool,
) -> None:
    disk, records = await killed(has_checkpoint=has_checkpoint)
    damage(disk, records[6])
    for _ in range(2):
        async with killed_store(disk, CONFIG) as store:
            assert store.recovered.bad_records == 1
            assert store.log.max_offset == records[-1].log_offset + records[-1].total
            assert (store.max_offset("T", 0), store.max_offset("T", 1)) == (16, 15)
            found = await store.read_messages("T", records[6].queue_id, 0, 32)
            assert found is not None
            assert (found.count, found.next_offset) == (14, 15), "only the damaged one is missing"
        disk = disk.after_power_loss(keep=True)


async def test_behind_what_was_synced_a_bad_record_is_the_torn_end() -> None:
    disk, records = await killed(has_checkpoint=True, unflushed=5)
    damage(disk, records[-3])
    async with open_store(disk, CONFIG) as store:
        assert store.log.max_offset == records[-3].log_offset
        assert store.recovered.bad_records == 0


async def test_a_bad_record_at_the_end_of_what_was_synced_keeps_its_room_and_no_more() -> None:
    disk, records = await killed(has_checkpoint=True)
    damage(disk, records[-1])
    end = records[-1].log_offset + records[-1].total
    async with open_store(disk, CONFIG) as store:
        assert store.recovered.bad_records == 1
        assert store.log.max_offset == end
        assert put_ok(store, new_message("T", 0, b"next")).log_offset == end


@pytest.mark.parametrize("torn_at", range(0, MARK_BYTES, 4))
async def test_a_mark_that_is_torn_or_of_another_checkpoint_counts_for_nothing(torn_at: int) -> None:
    disk, records = await killed(has_checkpoint=True)
    damage(disk, records[6])
    data = bytearray(disk.read(PATH))
    data[torn_at : torn_at + 4] = b"\x55\x66\x77\x11"
    disk.replace(PATH, bytes(data))
    async with open_store(disk, CONFIG) as store:
        assert store.log.max_offset == records[6].log_offset


def test_a_mark_is_read_only_with_the_checkpoint_it_was_written_after() -> None:
    disk = memory_disk()
    mark = FlushMark(disk, PATH)
    times = CheckpointTimes(5, 6, 7)
    mark.put(100)
    assert mark.read(times, 10) == 10
    mark.open()
    mark.put(100)
    assert mark.read(times, 10) == 10, "which checkpoint it belongs to is not known yet"
    mark.follow(times, 10, synced=20)
    mark.put(300)
    mark.close()
    assert FlushMark(disk, PATH).read(times, 10) == 300
    assert FlushMark(disk, PATH).read(times, 11) == 11
    assert FlushMark(disk, PATH).read(CheckpointTimes(5, 6, 8), 10) == 10


async def test_after_a_clean_stop_there_is_no_mark() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        put_ok(store, new_message())
        assert disk.exists(PATH)
    assert not disk.exists(PATH)


async def test_a_disk_that_refuses_the_mark_does_not_disturb_the_store() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        disk.fail("pwrite", path="*/flushed", times=None)
        put_ok(store, new_message())
        await store.flush()
        assert store.flushed_offset == store.log.max_offset
        disk.heal()


async def test_what_is_synced_while_a_checkpoint_is_written_is_marked_too() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with killed_store(disk, CONFIG, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"before" * 20))
        disk.stall("fdatasync", path="*/consumequeue/*", seconds=1)
        saving = asyncio.get_running_loop().create_task(store.checkpoint())
        await clock.advance(0.5)
        for _ in range(3):
            put_ok(store, new_message("T", 0, b"meanwhile" * 20))
        await store.flush()
        await clock.advance(5)
        await saving
    disk = disk.after_power_loss(keep=True)
    records = read_log(disk, ROOT, sizes_of(CONFIG), until_bad=True)[0]
    damage(disk, records[1])
    async with open_store(disk, CONFIG) as store:
        assert store.max_offset("T", 0) == 4
