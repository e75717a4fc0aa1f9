"""Bytes that a disk has changed: the record is reported, counted and stepped over, and all others are delivered."""

from __future__ import annotations

import pytest

from skyrocketmq.store import GetStatus, MessageStore
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.reader import Record, read_log, read_records
from tests.store.support import ROOT, Picky, memory_disk, new_message, open_store, put_ok, sizes_of, store_config

CONFIG = store_config(queue_file_bytes=20 * 100)
EVER = (0, 1 << 62)
PLACES = {"length": 0, "magic": 4, "checksum": 9, "log offset": 30, "body length": 84, "body": 90}


async def filled() -> tuple[FaultyDisk, list[Record]]:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        for number in range(30):
            put_ok(store, new_message("T", 0, b"%02d" % number + b"." * 300, keys=f"k{number}", tags="TagA"))
    return disk, read_log(disk, ROOT, sizes_of(CONFIG))[0]


def damage(disk: FaultyDisk, record: Record, place: str) -> None:
    file = disk.open(ROOT / "commitlog" / f"{record.log_offset // 4096 * 4096:020d}")
    at = record.log_offset % 4096 + PLACES[place]
    file.pwrite(bytes([file.pread(1, at)[0] ^ 0x55]), at)
    file.fdatasync()
    file.close()


async def read_all(store: MessageStore, filter: Picky | None) -> list[int]:
    offset, found = 0, []
    while offset < store.max_offset("T", 0):
        result = await store.read_messages("T", 0, offset, 5, filter=filter)
        assert result is not None
        assert result.status in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE)
        assert result.byte_count == len(result.joined())
        records = read_records(result.joined())
        assert result.count == len(records)
        found += [int(record.body[:2]) for record in records]
        assert result.next_offset > offset
        offset = result.next_offset
    return found


@pytest.mark.parametrize("is_cold", [False, True], ids=["in memory", "cold"])
@pytest.mark.parametrize("has_filter", [False, True], ids=["all", "filtered"])
@pytest.mark.parametrize("place", PLACES)
async def test_readers_step_over_a_record_that_the_disk_has_changed(
    place: str, has_filter: bool, is_cold: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk, records = await filled()
    for number in (7, 8, 20):
        damage(disk, records[number], place)
    async with open_store(disk, CONFIG) as store:
        for _ in range(2):
            if is_cold:
                disk.cool()
            found = await read_all(store, Picky(lambda record: True) if has_filter else None)
            assert found == [number for number in range(30) if number not in (7, 8, 20)]
        assert store.log.bad_records.count == 3
        told = [record for record in caplog.records if "bad record stepped over" in record.message]
        assert len(told) == 3, "each is reported once"
        assert (await store.query("T", "k8", 10, *EVER)).records == ()
        assert len((await store.query("T", "k9", 10, *EVER)).records) == 1
        assert put_ok(store, new_message("T", 0, b"30")).queue_offset == 30


async def test_only_the_damaged_message_is_missing_where_it_is_asked_for_alone() -> None:
    disk, records = await filled()
    damage(disk, records[5], "body")
    async with open_store(disk, CONFIG) as store:
        result = await store.read_messages("T", 0, 5, 1)
        assert result is not None
        assert (result.status, result.count, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 0, 6)
        assert await store.message_at(records[5].log_offset) is None
        assert await store.message_at(records[6].log_offset) is not None


async def test_what_this_process_wrote_itself_is_not_looked_at_again() -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, CONFIG, clock=clock) as store:
        put_ok(store, new_message("T", 0, b"00"))
        assert store.log.own_from == 0
        assert await read_all(store, None) == [0]
    async with open_store(disk, CONFIG, clock=clock) as store:
        assert store.log.own_from == store.log.max_offset
