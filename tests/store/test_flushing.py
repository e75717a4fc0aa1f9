"""What is durable when: asynchronous and synchronous flushing, time-outs, and a sync that fails."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from skyrocketmq.config import FlushDiskType, StoreConfig
from skyrocketmq.errors import FlushFailed
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.store import PutStatus, RunningFlag
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.reader import read_records
from tests.store.support import ROOT, check, memory_disk, new_message, open_store, put_ok, store_config

P = ParamSpec("P")
T = TypeVar("T")
SYNC = store_config(flush_disk_type=FlushDiskType.SYNC_FLUSH, commit_log_file_bytes=1 << 20)
WIDE = store_config(commit_log_file_bytes=1 << 20)


async def test_the_log_is_flushed_twice_a_second_when_pages_are_full() -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, WIDE, clock=clock) as store:
        put_ok(store, new_message(body=b"x" * 20_000))
        assert store.flushed_offset == 0
        await clock.advance(0.6)
        assert store.flushed_offset == store.log.max_offset
        assert store.statistics.flush_count == 1


async def test_a_begun_page_waits_for_the_thorough_flush() -> None:
    clock = ManualClock()
    async with open_store(memory_disk(), WIDE, clock=clock) as store:
        put_ok(store, new_message())
        await clock.advance(9)
        assert store.flushed_offset == 0
        await clock.advance(2)
        assert store.flushed_offset == store.log.max_offset


async def test_flushing_as_messages_come_does_not_wait_for_the_interval() -> None:
    clock = ManualClock()
    config = store_config(commit_log_file_bytes=1 << 20, flush_timed=False)
    async with open_store(memory_disk(), config, clock=clock) as store:
        put_ok(store, new_message(body=b"x" * 20_000))
        await clock.advance(0.05)
        assert store.flushed_offset == store.log.max_offset


async def test_many_senders_wait_for_one_sync() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with open_store(disk, SYNC, clock=clock) as store:
        disk.stall("fdatasync", seconds=0.005, times=None)
        before = disk.count("fdatasync", "*/commitlog/*")

        async def send(number: int) -> PutStatus:
            put_ok(store, new_message(body=b"%d" % number))
            return await store.wait_flushed(store.log.max_offset)

        senders = asyncio.gather(*(send(number) for number in range(1000)))
        await clock.advance(0.02)
        assert set(await senders) == {PutStatus.PUT_OK}
        assert disk.count("fdatasync", "*/commitlog/*") - before <= 3
        disk.heal()


async def test_a_sender_that_comes_during_a_sync_waits_for_the_next() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with open_store(disk, SYNC, clock=clock) as store:
        disk.stall("fdatasync", seconds=0.1, times=None)
        statuses: list[PutStatus] = []
        put_ok(store, new_message(body=b"first"))
        first_end = store.log.max_offset
        store.when_flushed(first_end, statuses.append)
        await clock.advance(0.05)
        put_ok(store, new_message(body=b"second"))
        store.when_flushed(store.log.max_offset, statuses.append)
        assert statuses == []
        await clock.advance(0.06)
        assert statuses == [PutStatus.PUT_OK]
        assert store.flushed_offset == first_end
        await clock.advance(0.1)
        assert statuses == [PutStatus.PUT_OK] * 2
        assert store.flusher.waiting_count == 0
        disk.heal()


async def test_on_a_slow_disk_senders_that_come_back_in_a_moment_share_one_sync() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with open_store(disk, SYNC, clock=clock) as store:
        await clock.settle()
        disk.stall("fdatasync", seconds=0.005, times=None)
        before = disk.count("fdatasync", "*/commitlog/*")

        async def send_again_and_again(number: int) -> None:
            for _ in range(5):
                put_ok(store, new_message(body=b"%d" % number))
                assert await store.wait_flushed(store.log.max_offset) is PutStatus.PUT_OK
                await clock.sleep(0.0001 * number)

        senders = asyncio.gather(*(send_again_and_again(number) for number in range(20)))
        await clock.advance(0.2)
        await senders
        assert disk.count("fdatasync", "*/commitlog/*") - before <= 7
        disk.heal()


async def test_a_sender_that_is_alone_waits_for_nobody() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with open_store(disk, SYNC, clock=clock) as store:
        await clock.settle()
        disk.stall("fdatasync", seconds=0.005, times=None)
        started = clock.monotonic()

        async def send() -> float:
            for _ in range(10):
                put_ok(store, new_message())
                await store.wait_flushed(store.log.max_offset)
            return clock.monotonic() - started

        sending = asyncio.ensure_future(send())
        await clock.advance(0.1)
        assert await sending == pytest.approx(0.05, abs=0.002)
        disk.heal()


async def test_what_is_flushed_already_is_answered_at_once() -> None:
    async with open_store(memory_disk(), SYNC) as store:
        put_ok(store, new_message())
        await store.flush()
        statuses: list[PutStatus] = []
        store.when_flushed(store.log.max_offset, statuses.append)
        assert statuses == [PutStatus.PUT_OK]


async def test_messages_nobody_waits_for_are_flushed_too() -> None:
    clock = ManualClock()
    async with open_store(memory_disk(), SYNC, clock=clock) as store:
        put_ok(store, new_message())
        await clock.advance(1.1)
        assert store.flushed_offset == store.log.max_offset


async def test_a_disk_that_is_too_slow_is_told_as_a_time_out_and_the_message_stays() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    config = store_config(
        flush_disk_type=FlushDiskType.SYNC_FLUSH, commit_log_file_bytes=1 << 20, sync_flush_timeout_ms=5000
    )
    async with open_store(disk, config, clock=clock) as store:
        await clock.settle()  # the first file is reserved
        disk.stall("fdatasync", seconds=8, path="*/commitlog/*")
        statuses: list[PutStatus] = []
        put_ok(store, new_message())
        store.when_flushed(store.log.max_offset, statuses.append)
        await clock.advance(4.9)
        put_ok(store, new_message())
        store.when_flushed(store.log.max_offset, statuses.append)
        assert statuses == []
        await clock.advance(0.2)
        assert statuses == [PutStatus.FLUSH_DISK_TIMEOUT]
        assert PutStatus.FLUSH_DISK_TIMEOUT.is_stored
        await clock.advance(4)
        assert statuses == [PutStatus.FLUSH_DISK_TIMEOUT, PutStatus.PUT_OK]
        assert store.max_offset("TopicTest", 0) == 2
    check(disk, config)


@pytest.mark.parametrize("config", [SYNC, WIDE], ids=["sync", "async"])
async def test_a_failed_sync_is_final(config: StoreConfig) -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with open_store(disk, config, clock=clock) as store:
        put_ok(store, new_message(body=b"x" * 20_000))
        disk.fail("fdatasync", path="*/commitlog/*", error=errno.EIO)
        statuses: list[PutStatus] = []
        store.when_flushed(store.log.max_offset, statuses.append)
        await clock.advance(1)
        assert statuses == [PutStatus.FLUSH_DISK_TIMEOUT]
        assert store.state.flags & RunningFlag.FLUSH_FAILED
        refused = store.put(new_message())
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "restart the broker" in refused.remark
        store.when_flushed(store.log.max_offset, statuses.append)
        assert statuses == [PutStatus.FLUSH_DISK_TIMEOUT] * 2
        with pytest.raises(FlushFailed):
            await store.flush()
        assert store.flushed_offset == 0
        found = await store.read_messages("TopicTest", 0, 0, 1)
        assert found is not None
        assert found.count == 1
        await clock.advance(120)
        assert store.flushed_offset == 0
    assert disk.exists(ROOT / "abort"), "the next start has to recover"
    assert not disk.exists(ROOT / "checkpoint")


class NoThreads(FaultyDisk):
    """A disk on a machine that may start no more threads."""

    refuses = False

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self.refuses:
            raise RuntimeError("can't start new thread")
        return await super().run(function, *args, **kwargs)


@pytest.mark.parametrize("config", [SYNC, WIDE], ids=["sync", "async"])
async def test_a_sync_that_fails_for_no_fault_of_the_disk_is_final_and_said_too(
    config: StoreConfig, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    disk = NoThreads(directories=[ROOT], clock=clock)
    async with open_store(disk, config, clock=clock) as store:
        put_ok(store, new_message(body=b"x" * 20_000))
        disk.refuses = True
        statuses: list[PutStatus] = []
        store.when_flushed(store.log.max_offset, statuses.append)
        await clock.advance(0.6)
        assert statuses == [PutStatus.FLUSH_DISK_TIMEOUT], "at once: nobody is left who could sync"
        assert store.put(new_message()).status is PutStatus.SERVICE_NOT_AVAILABLE
        failed = [record for record in caplog.records if record.message.startswith("flush failed")]
        assert [str(record.exc_info[1]) for record in failed if record.exc_info] == ["can't start new thread"]
        disk.refuses = False
    assert disk.exists(ROOT / "abort"), "the next start has to recover"


@pytest.mark.parametrize("path", ["*/consumequeue/*", "*/index/*", "*/checkpoint"])
async def test_a_checkpoint_that_cannot_be_synced_is_final_too(path: str) -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, clock=clock) as store:
        put_ok(store, new_message(keys="k"))
        disk.fail("fdatasync", path=path, error=errno.EIO)
        with pytest.raises(FlushFailed):
            await store.checkpoint()
        assert store.refusal is not None
    assert disk.exists(ROOT / "abort")
    async with open_store(disk) as store:
        found = await store.read_messages("TopicTest", 0, 0, 32)
        assert found is not None
        (kept,) = read_records(found.joined())
        assert kept.queue_offset == 0
        assert put_ok(store, new_message()).queue_offset >= 1  # numbers may be skipped, as after a power cut
    check(disk)


async def test_closing_tells_those_who_still_wait() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    statuses: list[PutStatus] = []
    async with open_store(disk, SYNC, clock=clock) as store:
        put_ok(store, new_message())
        store.when_flushed(store.log.max_offset, statuses.append)
    assert statuses == [PutStatus.PUT_OK], "closing flushes"
    assert clock.timer_count == 0


async def test_queues_are_written_once_a_second_and_synced_when_there_is_enough() -> None:
    clock = ManualClock()
    disk = memory_disk()
    config = store_config(commit_log_file_bytes=1 << 20, queue_file_bytes=20 * 5000)
    async with open_store(disk, config, clock=clock) as store:
        put_ok(store, new_message())
        queue = store.queue("TopicTest", 0)
        assert queue.written_bytes == 0
        await clock.advance(1.1)
        assert (queue.written_bytes, queue.synced_bytes) == (20, 0)
        for _ in range(500):
            put_ok(store, new_message())
        await clock.advance(1.1)
        assert queue.synced_bytes == queue.written_bytes == 20 * 501


async def test_a_real_disk_flushes(tmp_path: Path) -> None:
    disk = LocalDisk()
    config = store_config(tmp_path / "store", flush_disk_type=FlushDiskType.SYNC_FLUSH)
    try:
        async with open_store(disk, config, clock=SystemClock()) as store:
            for number in range(20):
                put_ok(store, new_message(body=b"%d" % number * 400))
                assert await store.wait_flushed(store.log.max_offset) is PutStatus.PUT_OK
        assert len(check(disk, config).records) == 20
    finally:
        disk.close()


# --------------------------------------------------------------------------------------------------------- warm files


async def test_the_next_file_is_warmed_up_and_locked_and_let_go_once_the_log_has_left_it() -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, store_config(warm_files=True, warm_step_pages=1), clock=clock) as store:
        await clock.settle()
        first, second, third = (ROOT / "commitlog" / f"{number * 4096:020d}" for number in range(3))
        assert disk.pinned == [first]
        put_ok(store, new_message(body=b"x" * 2500))
        await clock.settle()
        assert disk.pinned == [first, second]
        put_ok(store, new_message(body=b"x" * 2500))
        await clock.settle()
        assert disk.pinned == [second, third]
    assert disk.pinned == []
    check(disk)


async def test_a_system_that_does_not_lock_pages_is_told_and_the_store_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    disk = memory_disk()
    disk.fail("pin", error=errno.EPERM, times=None)
    async with open_store(disk, store_config(warm_files=True), clock=clock) as store:
        await clock.settle()
        put_ok(store, new_message(body=b"x" * 2500))
        await clock.settle()
        assert disk.pinned == []
        assert any("not locked in memory" in record.message for record in caplog.records)
        put_ok(store, new_message(body=b"x" * 2500))
    check(disk)


async def test_intervals_may_change_while_the_store_is_open() -> None:
    clock = ManualClock()
    async with open_store(memory_disk(), WIDE, clock=clock) as store:
        store.apply_config(store_config(commit_log_file_bytes=1 << 20, flush_interval_ms=10_000, flush_least_pages=1))
        await clock.advance(0.6)
        put_ok(store, new_message(body=b"x" * 20_000))
        await clock.advance(5)
        assert store.flushed_offset == 0
        await clock.advance(6)
        assert store.flushed_offset == store.log.max_offset


async def test_nobody_is_woken_for_a_message_before_it_is_durable() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with open_store(disk, SYNC, clock=clock) as store:
        told: list[int] = []
        store.on_arrival = lambda arrivals: told.extend(arrival.max_offset for arrival in arrivals)
        store.queue("TopicTest", 0).is_watched = True
        disk.stall("fdatasync", path="*/commitlog/*", seconds=1, times=None)
        put_ok(store, new_message())
        await clock.advance(0.5)
        assert told == []
        await clock.advance(3)
        assert store.flushed_offset == store.log.max_offset
        assert told == [1]
