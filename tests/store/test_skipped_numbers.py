"""Numbers that a power cut made a queue skip: who reads, searches, cleans or copies steps over them, and no more."""

from __future__ import annotations

import errno

import pytest

from skyrocketmq.errors import StoreError
from skyrocketmq.store import MessageStore
from skyrocketmq.store.replica import LogCopy
from skyrocketmq.store.reservations import read_reserved
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.reader import FILLER, read_queues, read_records
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
)

CONFIG = store_config(commit_log_file_bytes=1 << 13, queue_file_bytes=20 * 40)


async def with_a_gap(clock: ManualClock, *, after: int = 5) -> FaultyDisk:
    """Ten messages, one a second, numbers that nobody has, and so many messages more."""
    disk = memory_disk(clock=clock)
    async with killed_store(disk, CONFIG, clock=clock) as store:
        for number in range(10):
            put_ok(store, new_message("T", 0, b"%d" % number))
            await clock.advance(1)
        await store.checkpoint()
    disk = disk.after_power_loss()
    async with open_store(disk, CONFIG, clock=clock) as store:
        assert store.max_offset("T", 0) > 40, "the gap reaches into the next file"
        for number in range(10, 10 + after):
            put_ok(store, new_message("T", 0, b"%d" % number))
            await clock.advance(1)
    return disk


async def bodies_from(store: MessageStore, offset: int) -> list[int]:
    bodies: list[int] = []
    while offset < store.max_offset("T", 0):
        found = await store.read_messages("T", 0, offset, 32)
        assert found is not None
        bodies += [int(record.body) for part in found.parts for record in read_records(bytes(part))]
        offset = found.next_offset
    return bodies


async def test_the_offset_of_a_time_is_found_before_and_after_skipped_numbers() -> None:
    clock = ManualClock()
    start_ms = clock.now_ms()
    disk = await with_a_gap(clock)
    async with open_store(disk, CONFIG, clock=clock) as store:
        for second in range(15):
            offset = await store.offset_by_time("T", 0, start_ms + second * 1000)
            assert await bodies_from(store, offset) == list(range(second, 15))
        assert await bodies_from(store, await store.offset_by_time("T", 0, start_ms - 5000)) == list(range(15))
        assert await bodies_from(store, await store.offset_by_time("T", 0, start_ms + 99_000)) == [14]


async def test_the_time_after_the_last_message_is_that_of_the_message_also_if_skipped_numbers_follow() -> None:
    clock = ManualClock()
    start_ms = clock.now_ms()
    async with open_store(await with_a_gap(clock, after=0), CONFIG, clock=clock) as store:
        assert await store.offset_by_time("T", 0, start_ms + 99_000) == 9
        assert await store.offset_by_time("T", 0, start_ms + 4000) == 4


async def test_a_queue_file_that_ends_with_skipped_numbers_stays_as_long_as_its_messages() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with killed_store(disk, CONFIG, clock=clock) as store:
        for _ in range(20):  # more than a file of the log, in another queue
            put_ok(store, new_message("Other", 0, b"." * 500))
        for number in range(10):
            put_ok(store, new_message("T", 0, b"%d" % number))
        await store.checkpoint()
    disk = disk.after_power_loss()
    async with open_store(disk, CONFIG, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"10"))
        await store.flush()
        first = next(iter(disk.list(ROOT / "commitlog")))
        disk.set_modified_ms(ROOT / "commitlog" / first, clock.now_ms() - 100 * 3_600_000)
        store.cleaner.ask()
        await clock.advance(80)
        assert store.log.min_offset > 0
        assert await bodies_from(store, int(store.min_offset("T", 0))) == list(range(11))


async def test_a_copy_knows_its_newest_message_although_skipped_numbers_follow() -> None:
    clock = ManualClock()
    disk = await with_a_gap(clock, after=0)
    async with open_store(disk, CONFIG, clock=clock) as store:
        newest = store.queues.get("T", 0).read_cell(9)
        assert newest is not None
        assert newest[0] > 0
        assert LogCopy(store, disk).last_record() == newest[0]


async def test_a_log_that_was_lost_whole_leaves_its_numbers_skipped_over_orderly_stops_too() -> None:
    disk = memory_disk()
    async with killed_store(disk, CONFIG) as store:
        for number in range(5):
            put_ok(store, new_message("T", 0, b"%d" % number))
    disk = disk.after_power_loss()
    for _ in range(2):
        async with open_store(disk, CONFIG) as store:
            assert not store.log.file_starts
    async with open_store(disk, CONFIG) as store:
        assert put_ok(store, new_message("T", 0, b"5")).queue_offset >= 5
    assert not disk.exists(ROOT / "abort")
    check(disk, CONFIG)


async def test_what_a_failed_sync_may_have_dropped_is_skipped_without_a_power_cut_too() -> None:
    disk = memory_disk()
    async with killed_store(disk, CONFIG) as store:
        put_ok(store, new_message("T", 0, b"0"))
        await store.flush()
        for number in range(1, 6):
            put_ok(store, new_message("T", 0, b"%d" % number))
        disk.fail("fdatasync", path="*/commitlog/*", error=errno.EIO)
        try:
            await store.flush()
        except StoreError:
            pass
        end = int(store.flushed_offset)
    disk = disk.after_kill()
    name = next(iter(disk.list(ROOT / "commitlog")))
    file = disk.open(ROOT / "commitlog" / name)
    file.pwrite(bytes(CONFIG.commit_log_file_bytes - end), end)  # the system has read the page anew
    file.close()
    async with open_store(disk, CONFIG) as store:
        assert put_ok(store, new_message("T", 0, b"6")).queue_offset >= 6
        assert await bodies_from(store, 0) == [0, 6]


async def test_a_deleted_topic_does_not_come_back_after_a_power_cut() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with killed_store(disk, CONFIG, clock=clock) as store:
        for number in range(20):
            put_ok(store, new_message(f"T{number}", 0, b"0"))
            await store.delete_topic_queues(f"T{number}")
            await clock.settle()
        put_ok(store, new_message("T0", 0, b"made anew"))
        await store.checkpoint()
        await clock.settle()
        assert set(read_reserved(disk, ROOT)) == {("T0", 0)}
    disk = disk.after_power_loss()
    async with open_store(disk, CONFIG, clock=clock) as store:
        assert [queue.topic for queue in store.queues] == ["T0"]
        assert put_ok(store, new_message("T0", 0, b"next")).queue_offset >= 1


async def test_a_hundred_power_cuts_in_a_row_use_up_few_numbers() -> None:
    disk = memory_disk()
    given: list[int] = []
    for life in range(100):
        async with killed_store(disk, CONFIG) as store:
            given.append(int(put_ok(store, new_message("T", 0, b"0")).queue_offset))
            if life % 2:
                await store.flush()
        disk = disk.after_power_loss(life if life % 3 else None)
    assert given == sorted(set(given))
    assert given[-1] < 100 * 100


async def test_an_orderly_stop_leaves_no_queue_that_ends_with_skipped_numbers() -> None:
    """Apache's brokers would bring no message to any queue before the log has 2 GiB."""
    clock = ManualClock()
    disk = await with_a_gap(clock, after=0)
    for _ in range(2):
        for cells in read_queues(disk, ROOT, sizes_of(CONFIG)).values():
            assert cells[-1][1] != FILLER[1]
        async with open_store(disk, CONFIG, clock=clock) as store:
            assert store.max_offset("T", 0) > 40
            assert store.recovered.rebuilt_queues == []
            assert await bodies_from(store, 0) == list(range(10))
            end = int(store.max_offset("T", 0))
    async with open_store(disk, CONFIG, clock=clock) as store:
        assert put_ok(store, new_message("T", 0, b"10")).queue_offset == end
    assert not disk.exists(ROOT / "reserved")
    check(disk, CONFIG)


@pytest.mark.parametrize("is_kill", [False, True], ids=["power cut", "kill"])
async def test_a_stop_that_is_cut_off_anywhere_forgets_no_skipped_number(is_kill: bool) -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with killed_store(disk, CONFIG, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"0"))
        await store.flush()
        put_ok(store, new_message("T", 0, b"1"))
        put_ok(store, new_message("U", 0, b"1"))
    left = disk.after_power_loss()
    probe = left.after_power_loss()
    async with open_store(probe, CONFIG, clock=clock):
        begin = len(probe.calls)
    for crash_at in range(begin, len(probe.calls) + 1):
        first = left.after_power_loss()
        first.crash_at = crash_at
        try:
            async with open_store(first, CONFIG, clock=clock):
                pass
        except PowerLost:
            pass
        found = first.after_kill() if is_kill else first.after_power_loss(crash_at)
        async with open_store(found, CONFIG, clock=clock) as store:
            assert put_ok(store, new_message("T", 0, b"2")).queue_offset >= 2, crash_at
            assert put_ok(store, new_message("U", 0, b"2")).queue_offset >= 1, crash_at
