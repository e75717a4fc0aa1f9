"""What went wrong in stores of the family: at recovery, and on a disk that fills up."""

from __future__ import annotations

import struct

import pytest

from skyrocketmq.config import BrokerRole, FlushDiskType
from skyrocketmq.store import MessageStore, PutStatus
from skyrocketmq.store.replica import LogCopy
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
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
)
from tests.store.test_cleaning import DAY, clock_at, disk_of, make_old
from tests.store.test_recovery import EVER, fill, log_path, numbers, overwrite
from tests.store.test_replica import masters_log
from tests.store.test_reservations import read_all

FILE_BYTES = store_config().commit_log_file_bytes
QUEUE = ROOT / "consumequeue" / "T" / "0"


def put_numbered(store: MessageStore, count: int, *, first: int = 0) -> None:
    """Messages of one queue, by their numbers."""
    for number in range(first, first + count):
        put_ok(store, new_message("T", 0, b"%05d" % number + b"." * 100, keys=f"k{number}"))


async def test_apache_1400_a_disk_that_fills_up_is_noticed_while_files_are_being_deleted() -> None:
    clock = clock_at(DAY)
    disk = disk_of(clock, capacity_bytes=100 * FILE_BYTES)
    config = store_config(commit_log_delete_pause_ms=600_000, clean_forcibly=False)
    async with open_store(disk, config, clock=clock) as store:
        for _ in range(12):
            put_ok(store, new_message(body=b"x" * 3000))
        await store.checkpoint()
        make_old(disk, clock, files=10)
        store.cleaner.ask()
        await clock.advance(61)
        assert 0 < store.cleaner.deleted_count < 10, "a run has begun, and rests between two files"
        used = round(disk.usage(ROOT).used_ratio * 100)
        disk.open(ROOT / "somebody's", create=True).allocate((95 - used) * FILE_BYTES)
        await clock.advance(11)
        assert store.cleaner.deleted_count < 10, "the run still goes on"
        assert store.put(new_message()).status is PutStatus.SERVICE_NOT_AVAILABLE


async def test_apache_1434_messages_at_the_end_of_the_file_before_the_last_are_dispatched_after_a_crash() -> None:
    clock, disk = ManualClock(), memory_disk()
    config = store_config(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with killed_store(disk, config, clock=clock) as store:
        put_numbered(store, 3)
        await store.checkpoint()
        await clock.advance(5)
        put_numbered(store, 40, first=3)
        assert store.log.max_offset > 2 * FILE_BYTES, "the log goes on in files of its own"
        await store.log.flush(store.log.max_offset)
    survivor = disk.after_power_loss(keep=False)
    records, _ = read_log(survivor, ROOT, sizes_of(config), until_bad=True)
    assert len(records) == 43
    assert sum(record.log_offset < FILE_BYTES for record in records) > 3, "some are at the end of the first file"
    async with open_store(survivor, config) as store:
        bodies = await read_all(store, {}, 0)
    assert [int(body[:5]) for body in bodies] == list(range(43))
    check(survivor, config)


async def test_apache_1456_a_slave_that_was_killed_reads_only_what_came_after_its_last_checkpoint() -> None:
    config = store_config(broker_role=BrokerRole.SLAVE)
    data = await masters_log(200)
    clock, disk = ManualClock(), memory_disk()
    half = len(data) // 2 // FILE_BYTES * FILE_BYTES
    async with killed_store(disk, config, clock=clock) as store:
        copy = LogCopy(store, disk)
        for at in range(0, half, FILE_BYTES):
            copy.append(at, [data[at : at + FILE_BYTES]])
            copy.dispatch()
        await clock.advance(70)
        for at in range(half, len(data), FILE_BYTES):
            copy.append(at, [data[at : at + FILE_BYTES]])
            copy.dispatch()
    survivor = disk.after_power_loss(keep=True)
    async with open_store(survivor, config) as store:
        assert store.recovered.scanned_from >= half - FILE_BYTES
        assert store.recovered.dispatched < 150
    assert len(check(survivor, config).records) == 200


@pytest.mark.parametrize("is_slave", [False, True], ids=["master", "slave"])
@pytest.mark.parametrize("was_clean", [True, False], ids=["stopped", "killed"])
async def test_apache_7355_the_last_file_of_a_queue_that_is_gone_is_built_again(
    was_clean: bool, is_slave: bool
) -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_numbered(store, 25)
    if not was_clean:
        disk.replace(ROOT / "abort", b"")
    disk.unlink(QUEUE / disk.list(QUEUE)[-1])
    config = store_config(broker_role=BrokerRole.SLAVE if is_slave else BrokerRole.ASYNC_MASTER)
    async with open_store(disk, config) as store:
        assert store.max_offset("T", 0) == 25
    assert numbers(check(disk, config)) == list(range(25))


async def test_apache_8007_the_last_index_file_keeps_its_first_keys_after_a_crash() -> None:
    config = store_config(index_entry_count=1000)
    clock, disk = ManualClock(), memory_disk()
    async with killed_store(disk, config, clock=clock) as store:
        fill(store, 60)
        await store.checkpoint()
        await clock.advance(5)
        fill(store, 40, first=60)
    survivor = disk.after_power_loss(keep=True)
    assert len(survivor.list(ROOT / "index")) == 1
    async with open_store(survivor, config) as store:
        assert store.recovered.scanned_from > FILE_BYTES, "the first messages are not read again"
        for number in range(100):
            assert len((await store.query(f"T{number % 2}", f"k{number}", 9, *EVER)).records) == 1, number


def empty_next_file(disk: FaultyDisk) -> None:
    """A file of the queue that was made and never came to have anything in it."""
    file = disk.open(QUEUE / f"{200:020d}", create=True)
    file.allocate(200)
    file.close()


@pytest.mark.parametrize("lost", [0, 1, 10])
async def test_apache_10108_an_empty_last_file_of_a_queue_whose_messages_are_lost_stops_no_start(lost: int) -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_numbered(store, 10)
    records, _ = read_log(disk, ROOT, sizes_of(store_config()), until_bad=True)
    empty_next_file(disk)
    disk.replace(ROOT / "abort", b"")
    disk.unlink(ROOT / "checkpoint.json")
    disk.replace(ROOT / "checkpoint", struct.pack(">qqq", 0, 0, 0) + bytes(4096 - 24))
    if lost:
        at = records[10 - lost].log_offset
        overwrite(disk, log_path(0), at, bytes(FILE_BYTES - at))
    async with open_store(disk) as store:
        assert store.max_offset("T", 0) == 10 - lost
        put_numbered(store, 12, first=10 - lost)
    assert numbers(check(disk)) == list(range(22 - lost))
