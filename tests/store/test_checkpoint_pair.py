"""A checkpoint is two files, the times and the offsets. Whatever happens between them, and to them, promises hold."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from skyrocketmq.config import FlushDiskType
from skyrocketmq.store import MessageStore
from skyrocketmq.store.checkpoint import CheckpointTimes, load_checkpoint, save_checkpoint
from skyrocketmq.store.snapshot import load_snapshot, save_snapshot
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.support import ROOT, killed_store, memory_disk, new_message, open_store, put_ok, store_config

CONFIG = store_config(commit_log_file_bytes=1 << 16, queue_file_bytes=20 * 10, flush_disk_type=FlushDiskType.SYNC_FLUSH)
CALLS = 14  # of the disk; a checkpoint makes fewer
SEEDS = (None, *range(6))
ALL = list(range(40))


async def put_twenty(store: MessageStore, clock: ManualClock, *, is_awkward: bool) -> None:
    """Some have zeros in their properties, which only a voucher or a sync explains."""
    for number in range(20):
        more = {"x": "a\0" * 9} if is_awkward and number % 5 == 2 else {}
        put_ok(store, new_message("T", 0, b"%d" % number, more=more))
        await clock.advance(0.1)
    await store.flush()


async def crash_in_second_checkpoint(call: int, *, is_awkward: bool) -> FaultyDisk:
    """Forty messages, all of them flushed; the power goes at this call of the checkpoint after them."""
    disk, clock = memory_disk(), ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        await put_twenty(store, clock, is_awkward=is_awkward)
        await store.checkpoint()
        await put_twenty(store, clock, is_awkward=is_awkward)
        assert store.flushed_offset == store.log.max_offset
        disk.crash_at = len(disk.calls) + call
        await store.checkpoint()
        assert call >= CALLS - 2, "every call of a checkpoint is tried, and none at all"
    return disk


def numbers_of(store: MessageStore) -> list[int]:
    """Of the messages in the queue."""
    return [offset for offset, _, size, _ in store.queues.get("T", 0).cells() if 0 < size < 0x7FFFFFFF]


@pytest.mark.parametrize("call", range(CALLS))
async def test_flushed_messages_survive_a_power_cut_at_any_disk_call_of_a_checkpoint(call: int) -> None:
    disk = await crash_in_second_checkpoint(call, is_awkward=True)
    for seed in SEEDS:
        async with open_store(disk.after_power_loss(seed), CONFIG) as store:
            assert numbers_of(store) == ALL, seed
            assert store.recovered.bad_records == store.recovered.cut_records == 0
            assert not store.recovered.by_times, "the offsets count, the old ones or the new"


@pytest.mark.parametrize("call", range(CALLS))
async def test_flushed_messages_survive_a_kill_at_any_disk_call_of_a_checkpoint_and_a_power_cut_later(
    call: int,
) -> None:
    """The start in between writes to queues below the newer times, which the power cut takes back."""
    for seed in SEEDS:
        disk = (await crash_in_second_checkpoint(call, is_awkward=False)).for_next_process()
        async with killed_store(disk, CONFIG) as store:
            assert numbers_of(store) == ALL, seed
        async with open_store(disk.after_power_loss(seed), CONFIG) as store:
            assert numbers_of(store) == ALL, seed


async def skipped_after_power_cut(clock: ManualClock) -> FaultyDisk:
    """Six messages were read, five of them are lost; the queue goes on after them."""
    disk = memory_disk()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"durable"))
        await store.checkpoint()
        for _ in range(5):
            put_ok(store, new_message("T", 0, b"read, then lost"))
    return disk.after_power_loss()


@pytest.mark.parametrize("call", range(CALLS))
async def test_no_number_is_given_again_after_a_kill_at_any_disk_call_of_a_checkpoint(call: int) -> None:
    clock = ManualClock()
    disk = await skipped_after_power_cut(clock)
    async with killed_store(disk, CONFIG, clock=clock) as store:
        goes_on_at = int(store.max_offset("T", 0))
        await clock.advance(1)
        put_ok(store, new_message("other", 0))
        await store.flush()
        disk.crash_at = len(disk.calls) + call
        await store.checkpoint()
    async with open_store(disk.after_kill(), CONFIG, clock=clock) as store:
        assert put_ok(store, new_message("T", 0)).queue_offset == goes_on_at > 6, "and none is skipped"


# --------------------------------------------------------------------------------------- one of the two is damaged


def damage(disk: FaultyDisk, name: str, how: str) -> None:
    data = disk.read(ROOT / name)
    if how == "gone":
        disk.unlink(ROOT / name)
        disk.sync_directory(ROOT)
    else:
        disk.replace(ROOT / name, {"empty": b"", "half": data[: len(data) // 2]}.get(how, Random(1).randbytes(30)))


DAMAGES = ("gone", "empty", "half", "garbage")


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["checkpoint", "checkpoint.json"])
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "power cut"])
async def test_flushed_messages_survive_a_crash_and_the_loss_of_half_a_checkpoint(
    is_killed: bool, name: str, how: str
) -> None:
    disk, clock = memory_disk(), ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        await put_twenty(store, clock, is_awkward=True)
        await store.checkpoint()
        await put_twenty(store, clock, is_awkward=True)
    found = disk.after_kill() if is_killed else disk.after_power_loss()
    damage(found, name, how)
    async with open_store(found, CONFIG) as store:
        assert numbers_of(store) == ALL
        assert store.recovered.cut_bytes == 0


@pytest.mark.parametrize("how", DAMAGES)
async def test_no_number_is_given_again_after_a_kill_and_the_loss_of_the_offsets(how: str) -> None:
    clock = ManualClock()
    disk = await skipped_after_power_cut(clock)
    async with killed_store(disk, CONFIG, clock=clock):
        await clock.advance(1)
    found = disk.after_kill()
    damage(found, "checkpoint.json", how)
    async with open_store(found, CONFIG, clock=clock) as store:
        assert put_ok(store, new_message("T", 0)).queue_offset >= 6


async def test_times_that_are_lost_are_written_again_as_they_were() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        await put_twenty(store, clock, is_awkward=False)
        await store.checkpoint()
    found = disk.after_kill()
    times = load_checkpoint(found, ROOT / "checkpoint")
    found.unlink(ROOT / "checkpoint")
    async with open_store(found, CONFIG):
        pass
    assert load_checkpoint(found, ROOT / "checkpoint") == times
    assert times.log_ms > 0


async def test_vouchers_stay_as_long_as_what_was_flushed_could_not_be_noted() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        await put_twenty(store, clock, is_awkward=True)
        disk.fail("fdatasync", path="*/flushed")
        await store.checkpoint()
        assert disk.list(ROOT / "vouchers"), "they are all that speaks for these messages"
        await store.checkpoint()
        assert disk.list(ROOT / "vouchers") == []
        await put_twenty(store, clock, is_awkward=True)
    found = disk.after_power_loss()
    damage(found, "checkpoint.json", "gone")
    async with open_store(found, CONFIG) as store:
        assert numbers_of(store) == ALL


# ------------------------------------------------------------------------------------------- somebody else was here


def run_as_apache_does(disk: FaultyDisk) -> None:
    """Leave other times and another mark, the sign of a crash, and offsets where no record begins any more."""
    times = load_checkpoint(disk, ROOT / "checkpoint")
    stale = load_snapshot(disk, ROOT / "checkpoint.json", times)
    assert stale is not None
    save_snapshot(disk, ROOT / "checkpoint.json", msgspec.structs.replace(stale, log_offset=stale.log_offset - 7))
    save_checkpoint(disk, ROOT / "checkpoint", CheckpointTimes(times.log_ms + 1, times.queues_ms + 1, times.index_ms))
    disk.replace(ROOT / "abort", b"")
    lock = disk.lock(ROOT / "lock")
    lock.write_mark(b"lock")
    lock.release()


async def test_offsets_from_before_somebody_else_was_here_never_count_again() -> None:
    """Apache's broker has come and gone. The start after it ends at any disk call, at the latest when it is done."""
    disk, clock = memory_disk(), ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        await put_twenty(store, clock, is_awkward=False)
        await store.checkpoint()
        await put_twenty(store, clock, is_awkward=False)
    disk = disk.after_kill()
    run_as_apache_does(disk)
    probe = disk.after_kill()
    async with killed_store(probe, CONFIG, clock=clock):
        calls = len(probe.calls)
    for call in range(calls + 1):
        first = disk.after_kill()
        first.crash_at = call
        with pytest.raises(PowerLost):
            async with open_store(first, CONFIG, clock=clock):
                first.cut_power()
        for found in (first.after_kill(), first.after_power_loss(), first.after_power_loss(call)):
            async with open_store(found, CONFIG, clock=clock) as store:
                assert numbers_of(store) == ALL, call
