"""Old files go, a full disk refuses and heals by itself, and queues and index follow the log."""

from __future__ import annotations

import errno
import gc
import logging
from datetime import datetime
from typing import Any

import pytest

from skyrocketmq.config import StoreConfig
from skyrocketmq.store import GetStatus, MessageStore, Pending, PutStatus, RunningFlag
from skyrocketmq.store.cleaning import decide
from skyrocketmq.store.consume_queue import CELL
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.reader import read_records
from tests.store.support import ROOT, check, killed_store, memory_disk, new_message, open_store, put_ok, store_config

HOUR_MS = 3_600_000
EVER = (0, 1 << 62)


def clock_at(hour: int) -> ManualClock:
    """A clock that shows this hour of a local day."""
    return ManualClock(int(datetime(2023, 11, 14, hour, 5).timestamp() * 1000))


NIGHT, DAY = 4, 14


def fill(store: MessageStore, count: int, *, first: int = 0) -> None:
    """Three messages fill a file of the log."""
    for number in range(first, first + count):
        put_ok(store, new_message("T", number % 2, b"%05d" % number + b"." * 1000, keys=f"k{number}"))


def make_old(disk: FaultyDisk, clock: ManualClock, *, files: int, hours: float = 73) -> None:
    for name in list(disk.list(ROOT / "commitlog"))[:files]:
        disk.set_modified_ms(ROOT / "commitlog" / name, int(clock.now_ms() - hours * HOUR_MS))


def log_files(disk: FaultyDisk) -> list[int]:
    return [int(name) // 4096 for name in disk.list(ROOT / "commitlog")]


def disk_of(clock: ManualClock, **options: Any) -> FaultyDisk:
    return memory_disk(clock=clock, **options)


@pytest.mark.parametrize(
    ("used", "hour", "is_asked", "changes", "expected"),
    [
        (0.10, 4, False, {}, (True, False)),
        (0.10, 3, False, {}, (False, False)),
        (0.10, 5, False, {}, (False, False)),
        (0.10, 23, False, {"delete_when": "04;23"}, (True, False)),
        (0.10, 14, True, {}, (True, False)),
        (0.75, 14, False, {}, (False, False)),
        (0.76, 14, False, {}, (True, False)),
        (0.60, 14, False, {"disk_used_percent_max": 50}, (True, False)),
        (-1.0, 14, False, {}, (True, False)),
        (0.85, 14, False, {}, (True, False)),
        (0.86, 14, False, {}, (True, True)),
        (0.95, 14, False, {}, (True, True)),
        (0.95, 14, False, {"clean_forcibly": False}, (True, False)),
        (0.55, 14, False, {"disk_clean_ratio": 0.5}, (True, True)),
    ],
)
def test_what_a_run_deletes(
    used: float, hour: int, is_asked: bool, changes: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    config = store_config(**changes)
    for ratios in ({"log_ratio": used, "queue_ratio": 0.1}, {"log_ratio": 0.1, "queue_ratio": used}):
        decision = decide(config, hour=hour, is_asked=is_asked, **ratios)
        assert (decision.is_due, decision.is_forced) == expected


async def test_files_older_than_72_hours_go_at_four_and_no_others() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 15)
        await store.flush()
        make_old(disk, clock, files=2)
        await clock.advance(59)
        assert log_files(disk)[0] == 0, "the first look is after a minute"
        await clock.advance(3)
        assert log_files(disk)[0] == 2
        assert store.log.min_offset == 2 * 4096
        assert store.min_offset("T", 0) == 3
        assert store.min_offset("T", 1) == 3
        assert store.cleaner.deleted_count == 2
        make_old(disk, clock, files=1, hours=71.9)
        await clock.advance(30)
        assert log_files(disk)[0] == 2
    assert [int(record.body[:5]) for record in check(disk).records] == list(range(6, 15))


async def test_at_other_hours_nothing_goes_unless_an_operator_asks() -> None:
    clock = clock_at(DAY)
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 15)
        await store.flush()
        make_old(disk, clock, files=3)
        await clock.advance(120)
        assert log_files(disk)[0] == 0
        store.cleaner.ask()
        await clock.advance(15)
        assert log_files(disk)[0] == 3


async def test_the_newest_file_never_goes_and_neither_does_what_is_not_flushed() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    config = store_config(flush_interval_ms=10**9, flush_thorough_interval_ms=10**9)
    async with open_store(disk, config, clock=clock) as store:
        fill(store, 12)
        make_old(disk, clock, files=9)
        await store.cleaner.clean()
        assert log_files(disk)[0] == 0
        await store.flush()
        make_old(disk, clock, files=9)
        store.cleaner.apply_config(store_config(commit_log_delete_pause_ms=0))
        await store.cleaner.clean()
        assert log_files(disk)[0] == 3, "only the file that is written to is left, and perhaps the next one"
        fill(store, 6, first=12)
        assert store.max_offset("T", 0) == 9


async def test_a_run_deletes_ten_files_and_pauses_between() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 45)
        await store.checkpoint()
        make_old(disk, clock, files=14)
        await clock.advance(60.25)
        assert log_files(disk)[0] == 3, "one every 100 ms"
        await clock.advance(5)
        assert log_files(disk)[0] == 10
        await clock.advance(12)
        assert log_files(disk)[0] == 14


async def test_above_85_percent_young_files_go_until_there_is_room() -> None:
    clock = clock_at(DAY)
    disk = disk_of(clock, capacity_bytes=40 * 4096)
    config = store_config(index_enable=False, queue_file_bytes=20 * 100, commit_log_delete_pause_ms=0)
    async with open_store(disk, config, clock=clock) as store:
        written = 0
        for _ in range(60):
            await clock.advance(10)  # nothing is lost for the senders, though ten times the disk is sent
            fill(store, 6, first=written)
            written += 6
            await store.flush()
        assert store.refusal is None
        assert disk.usage(ROOT).used_ratio <= 0.90
        assert store.cleaner.deleted_count > 80
        assert store.max_offset("T", 0) == written // 2
        first = store.min_offset("T", 0)
        found = await store.read_messages("T", 0, first, 1)
        assert found is not None
        assert found.status is GetStatus.FOUND
    check(disk, config)


async def test_above_90_percent_sends_are_refused_with_the_cause_and_taken_again_once_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = clock_at(DAY)
    disk = disk_of(clock, capacity_bytes=100 * 4096)
    caplog.set_level(logging.INFO, "skyrocketmq.store.cleaning")
    async with open_store(disk, store_config(clean_forcibly=False), clock=clock) as store:
        fill(store, 3)
        hog = disk.open(ROOT / "somebody's", create=True)
        hog.allocate(85 * 4096)
        await clock.advance(11)
        refused = store.put(new_message())
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert refused.remark.startswith("the disk is full: free space")
        assert "of it is used, 90% is the limit" in refused.remark
        found = await store.read_messages("T", 0, 0, 5)
        assert found is not None
        assert found.count == 2, "reading goes on"
        await clock.advance(60)
        assert sum("messages are refused" in record.message for record in caplog.records) == 1, "said once"
        hog.close()
        disk.unlink(ROOT / "somebody's")
        await clock.advance(10)
        put_ok(store, new_message())
        assert any("room again" in record.message for record in caplog.records)


async def test_without_room_for_the_checkpoint_the_store_refuses_nothing_for_ever() -> None:
    clock = ManualClock()
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 2)
        disk.fail("pwrite", path="*/checkpoint*", error=errno.ENOSPC, times=None)
        await clock.advance(121)
        assert not store.state.flags & RunningFlag.FLUSH_FAILED
        put_ok(store, new_message("T", 0))
        disk.heal()
    check(disk)


async def test_queue_files_follow_the_log() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 90)  # 45 messages a queue, ten of them in a file
        await store.checkpoint()
        assert len(disk.list(ROOT / "consumequeue" / "T" / "0")) == 5
        make_old(disk, clock, files=20)  # 60 messages
        await clock.advance(80)
        assert [int(name) // 200 for name in disk.list(ROOT / "consumequeue" / "T" / "0")] == [3, 4]
        assert store.min_offset("T", 0) == 30
        result = await store.read_messages("T", 0, 0, 10)
        assert result is not None
        assert (result.status, result.next_offset) == (GetStatus.OFFSET_TOO_SMALL, 30)
        assert await store.offset_by_time("T", 0, 0) == 30
    async with open_store(disk, clock=clock) as store:
        assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (30, 45)
        assert store.recovered.rebuilt_queues == []
        found = await store.read_messages("T", 1, 30, 32)
        assert found is not None
        assert [int(record.body[:5]) for record in read_records(found.joined())] == list(range(61, 81, 2)), (
            "one read gives what is in one file of the queue"
        )
    check(disk)


@pytest.mark.parametrize("is_killed", [False, True], ids=["clean stop", "kill"])
async def test_index_files_follow_the_log_and_are_not_missed_at_the_next_start(is_killed: bool) -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    opened = killed_store if is_killed else open_store
    async with opened(disk, clock=clock) as store:
        fill(store, 90)  # 19 keys in a file
        await store.checkpoint()
        assert len(disk.list(ROOT / "index")) == 5
        make_old(disk, clock, files=20)
        await clock.advance(80)
        assert len(disk.list(ROOT / "index")) == 2
        assert (await store.query("T", "k10", 10, *EVER)).records == ()
        assert len((await store.query("T", "k70", 10, *EVER)).records) == 1
    if is_killed:
        disk = disk.after_power_loss(keep=True)
    async with open_store(disk, clock=clock) as store:
        assert not store.recovered.index_rebuilt
        assert len((await store.query("T", "k70", 10, *EVER)).records) == 1
    check(disk)


async def test_a_place_kept_for_a_lost_message_does_not_hide_those_before_it() -> None:
    disk = memory_disk()
    async with open_store(disk, store_config(queue_file_bytes=20 * 100)) as store:
        queue = store.queue("T", 0)
        offsets = [100, 200, 300, None, 500, None, None, 800, 900, None, 1100]
        for number, log_offset in enumerate(offsets):
            if log_offset is None:
                queue.fill_up_to(number + 1)
            else:
                queue.put(number, CELL.pack(log_offset, 100, 0))
        expected = {0: 0, 100: 0, 101: 1, 300: 2, 301: 4, 500: 4, 501: 7, 900: 8, 901: 10, 1100: 10, 1101: 11}
        assert {at: queue.first_at_or_after(at) for at in expected} == expected
        queue.clear()


async def test_a_file_that_cannot_be_deleted_is_tried_again_after_two_minutes() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 15)
        await store.flush()
        make_old(disk, clock, files=2)
        disk.fail("unlink", path="*/commitlog/*", error=errno.EBUSY)
        await clock.advance(65)
        assert log_files(disk)[:2] == [0, 1]
        assert len(store.cleaner.stuck) == 1
        assert store.log.min_offset == 4096, "nobody finds it any more, and no hole is made behind it"
        await clock.advance(100)
        assert log_files(disk)[:2] == [0, 1]
        await clock.advance(50)
        assert log_files(disk)[0] == 2
        assert store.cleaner.stuck == []


async def test_a_reader_keeps_what_it_holds_of_a_deleted_file_and_a_long_one_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 15)
        held = store.get_messages("T", 0, 0, 1)
        await store.flush()
        make_old(disk, clock, files=1)
        await clock.advance(65)
        assert log_files(disk)[0] == 1
        assert int(read_records(held.joined())[0].body[:5]) == 0  # type: ignore[union-attr]
        await clock.advance(130)
        assert sum("still held by a reader" in record.message for record in caplog.records) == 1
        del held
        gc.collect()
        await clock.advance(20)
        assert store.cleaner._held == []


async def test_a_read_that_waits_while_its_file_is_deleted_learns_where_the_queue_begins_now() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 15)
    async with open_store(disk, clock=clock) as store:
        disk.cool("*/commitlog/*")
        pending = store.get_messages("T", 0, 0, 3)
        assert isinstance(pending, Pending)
        make_old(disk, clock, files=4)
        await clock.advance(65)
        assert store.log.min_offset > 0
        result = await pending.finish()
        assert result.status is GetStatus.OFFSET_TOO_SMALL
        assert result.next_offset == store.min_offset("T", 0) > 0


def config_with_two_directories() -> StoreConfig:
    return store_config(commit_log_path=f"{ROOT}/one,{ROOT}/two")


async def test_files_of_several_directories_go_in_the_order_of_the_log() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    config = config_with_two_directories()
    async with open_store(disk, config, clock=clock) as store:
        fill(store, 15)
        await store.flush()
        for directory in ("one", "two"):
            for name in list(disk.list(ROOT / directory)):
                disk.set_modified_ms(ROOT / directory / name, clock.now_ms() - 100 * HOUR_MS)
        await clock.advance(65)
        assert store.log.min_offset == 4 * 4096
        assert [int(name) // 4096 for name in (*disk.list(ROOT / "one"), *disk.list(ROOT / "two"))][:1] == [4]
        assert store.min_offset("T", 0) == 6


async def test_a_queue_whose_messages_are_all_gone_goes_on_with_its_next_number_after_a_power_cut() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    async with killed_store(disk, clock=clock) as store:
        put_ok(store, new_message("Rare", 0, b"x" * 3000))
        fill(store, 6)
        await store.flush()
        make_old(disk, clock, files=1)
        await clock.advance(65)
        assert store.log.min_offset == 4096
        assert (store.min_offset("Rare", 0), store.max_offset("Rare", 0)) == (1, 1)
    disk = disk.after_power_loss()
    async with open_store(disk, clock=clock) as store:
        skipped = store.max_offset(
            "Rare", 0
        )  # numbers that were reserved for messages, which a power cut may have taken
        assert skipped > 1
        assert put_ok(store, new_message("Rare", 0)).queue_offset == skipped


async def test_a_queue_whose_messages_are_all_gone_keeps_its_number_when_its_files_are_lost_too() -> None:
    clock = clock_at(NIGHT)
    disk = disk_of(clock)
    async with open_store(disk, clock=clock) as store:
        put_ok(store, new_message("Rare", 0, b"x" * 3000))
        fill(store, 6)
        await store.flush()
        make_old(disk, clock, files=1)
        await clock.advance(65)
        assert store.log.min_offset == 4096
    disk.unlink(ROOT / "consumequeue" / "Rare" / "0" / ("0" * 20))
    for _ in range(2):
        async with open_store(disk, clock=clock) as store:
            assert (store.min_offset("Rare", 0), store.max_offset("Rare", 0)) == (1, 1)
    async with open_store(disk, clock=clock) as store:
        assert put_ok(store, new_message("Rare", 0, b"next")).queue_offset == 1
        found = await store.read_messages("Rare", 0, 1, 5)
        assert found is not None
        assert [record.body for record in read_records(found.joined())] == [b"next"]
    async with open_store(disk, clock=clock) as store:
        assert (store.min_offset("Rare", 0), store.max_offset("Rare", 0)) == (1, 2)
    check(disk)
