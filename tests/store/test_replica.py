"""A slave's store: any cut of the master's log gives the same files, and queues and index to go with them."""

from __future__ import annotations

import errno
import random

import pytest

from skyrocketmq.config import BrokerRole
from skyrocketmq.errors import DiskFull
from skyrocketmq.store import Arrival
from skyrocketmq.store.replica import LogCopy, NotContinuous
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.support import (
    ROOT,
    check,
    killed_store,
    memory_disk,
    new_message,
    open_store,
    put_ok,
    store_config,
    unique_id,
)

SLAVE = store_config(broker_role=BrokerRole.SLAVE)
FILE_BYTES = SLAVE.commit_log_file_bytes


async def masters_log(count: int = 60) -> bytes:
    """The log of a master, several files of it, with all kinds of messages."""
    disk = memory_disk()
    async with open_store(disk) as store:
        for number in range(count):
            message = new_message(
                f"Topic{number % 3}", number % 2, b"%d" % number * (number % 50), unique=unique_id(number), tags="TagA"
            )
            put_ok(store, message)
        data = b"".join([disk.read(file.path) for file in store.log.files])[: store.log.max_offset]
    return data


def pieces_of(data: bytes, chance: random.Random) -> list[tuple[int, bytes]]:
    """The log in pieces of any length, none of them across two files."""
    pieces, at = [], 0
    while at < len(data):
        size = min(chance.choice((1, 7, 100, 1000, 5000)), FILE_BYTES - at % FILE_BYTES, len(data) - at)
        pieces.append((at, data[at : at + size]))
        at += size
    return pieces


@pytest.mark.parametrize("seed", range(8))
async def test_the_copy_is_the_same_wherever_the_log_is_cut(seed: int) -> None:
    data = await masters_log()
    disk = memory_disk()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        for offset, piece in pieces_of(data, random.Random(seed)):
            copy.append(offset, [piece])
            copy.dispatch()
        assert copy.end == len(data) == store.log.whole_offset
        assert b"".join([disk.read(file.path) for file in store.log.files])[: len(data)] == data
        await copy.close()
    assert len(check(disk, SLAVE).records) == 60


async def test_a_record_that_has_not_come_whole_is_dropped_at_a_stop_and_comes_again() -> None:
    data = await masters_log()
    disk = memory_disk()
    for end in (50, 1111, 4095, 4097, len(data)):
        async with open_store(disk, SLAVE) as store:
            copy = LogCopy(store, disk)
            begin = copy.end
            assert begin <= end
            while begin < end:
                size = min(end - begin, FILE_BYTES - begin % FILE_BYTES)
                copy.append(begin, [data[begin : begin + size]])
                copy.dispatch()
                begin += size
            await copy.close()
            assert store.log.unfinished_bytes == 0
        check(disk, SLAVE)
    assert len(check(disk, SLAVE).records) == 60


@pytest.mark.parametrize("crash_at", range(1, 60))
async def test_a_slave_that_loses_power_goes_on_with_the_copy(crash_at: int) -> None:
    data = await masters_log(30)
    disk = memory_disk()
    chance = random.Random(crash_at)
    async with killed_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        for number, (offset, piece) in enumerate(pieces_of(data, chance)):
            copy.append(offset, [piece])
            copy.dispatch()
            if number % 5 == 4:
                await store.checkpoint()
            if number == crash_at:
                break
    after = disk.after_power_loss()
    async with open_store(after, SLAVE) as store:
        copy = LogCopy(store, after)
        rest = copy.end
        while rest < len(data):
            size = min(len(data) - rest, FILE_BYTES - rest % FILE_BYTES)
            copy.append(rest, [data[rest : rest + size]])
            copy.dispatch()
            rest += size
        assert b"".join([after.read(file.path) for file in store.log.files])[: len(data)] == data
        await copy.close()
    assert len(check(after, SLAVE).records) == 30


async def test_an_empty_copy_begins_where_a_file_of_the_master_begins() -> None:
    data = await masters_log()
    disk = memory_disk()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        with pytest.raises(NotContinuous, match="mappedFileSizeCommitLog"):
            copy.append(100, [b"x"])
        copy.append(FILE_BYTES, [data[FILE_BYTES : 2 * FILE_BYTES]])
        copy.dispatch()
        assert store.log.min_offset == FILE_BYTES
        await copy.close()
    async with open_store(disk, SLAVE) as store:
        assert store.log.min_offset == FILE_BYTES
        assert store.log.max_offset == 2 * FILE_BYTES


async def test_pieces_that_do_not_fit_are_refused_and_change_nothing() -> None:
    data = await masters_log()
    disk = memory_disk()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[:1000]])
        copy.dispatch()
        for offset, piece in ((999, b"x"), (1001, b"x"), (1000, bytes(FILE_BYTES))):
            with pytest.raises(NotContinuous):
                copy.append(offset, [piece])
        assert copy.end == 1000
        await copy.close()


async def test_who_waits_at_a_queue_is_told_of_its_new_messages() -> None:
    data = await masters_log(10)
    disk = memory_disk()
    told: list[Arrival] = []
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        store.on_arrival = told.extend
        store.queue("Topic1", 1).is_watched = True
        copy.append(0, [data])
        copy.dispatch()
        assert [(arrival.topic, arrival.queue_id, arrival.max_offset) for arrival in told] == [
            ("Topic1", 1, 1),
            ("Topic1", 1, 2),
        ]
        store.queue("Topic1", 1).is_watched = False
        await copy.close()


async def test_damage_in_the_masters_log_is_copied_and_stepped_over(caplog: pytest.LogCaptureFixture) -> None:
    data = bytearray(await masters_log())
    data[1500:1600] = b"\xff" * 100
    disk = memory_disk()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        for offset, piece in pieces_of(bytes(data), random.Random(3)):
            copy.append(offset, [piece])
            copy.dispatch()
        found = sum(int(store.max_offset(topic, queue)) for topic in store.queues.topics() for queue in (0, 1))
        assert found == 60  # each message behind the damage has its place
        await copy.close()
    assert "damaged" in caplog.text or "bad record" in caplog.text


async def test_a_full_disk_refuses_and_the_copy_goes_on_when_there_is_room() -> None:
    data = await masters_log()
    disk: FaultyDisk = memory_disk()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[:FILE_BYTES]])
        copy.dispatch()
        disk.fail("allocate", error=errno.ENOSPC, times=None)
        with pytest.raises(DiskFull):
            copy.append(FILE_BYTES, [data[FILE_BYTES : FILE_BYTES + 10]])
        assert copy.end == FILE_BYTES
        disk.heal()
        copy.append(FILE_BYTES, [data[FILE_BYTES : 2 * FILE_BYTES]])
        copy.dispatch()
        await copy.close()
    check(disk, SLAVE)


@pytest.mark.parametrize("heals_before_stop", [True, False])
async def test_what_came_while_queues_could_not_be_written_is_there_after_a_stop(heals_before_stop: bool) -> None:
    data = await masters_log(10)
    disk: FaultyDisk = memory_disk()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[:-5]])  # the master may be told that it has arrived
        disk.fail("allocate", error=errno.ENOSPC, times=None)
        with pytest.raises(DiskFull):
            copy.dispatch()
        if heals_before_stop:
            disk.heal()
        await copy.close()
    disk.heal()
    async with open_store(disk, SLAVE) as store:
        found = sum(int(store.max_offset(topic, queue)) for topic in store.queues.topics() for queue in (0, 1))
        assert found == 9  # the tenth was not whole
    check(disk, SLAVE)


# ----------------------------------------------------------------------------------- what is bad behind the last record


@pytest.mark.parametrize("flushed_files", [1, 2], ids=["in-the-same-file", "in-a-later-file"])
async def test_a_copy_that_was_begun_anew_and_killed_asks_for_all_that_it_lacks(flushed_files: int) -> None:
    data = await masters_log(200)
    disk = memory_disk()
    async with killed_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        for start in range(0, flushed_files * FILE_BYTES, FILE_BYTES):
            copy.append(start, [data[start : start + FILE_BYTES - 100]])
            if start + FILE_BYTES < flushed_files * FILE_BYTES:
                copy.append(copy.end, [data[copy.end : start + FILE_BYTES]])
        copy.dispatch()
        await store.flush()
    disk = disk.for_next_process()
    for name in disk.list(ROOT / "commitlog"):
        disk.unlink(ROOT / "commitlog" / name)
    for name in ("checkpoint", "checkpoint.json"):
        disk.unlink(ROOT / name)
    async with killed_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[:2000]])
        copy.dispatch()
        whole = int(store.log.whole_offset)
    disk = disk.for_next_process()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        assert copy.end == whole
        for start in range(0, len(data), FILE_BYTES):
            piece = data[max(copy.end, start) : start + FILE_BYTES]
            copy.append(copy.end, [piece])
        copy.dispatch()
        await copy.close()
    assert len(check(disk, SLAVE).records) == 200


@pytest.mark.parametrize("damage", [bytes(40), b"garbage" * 6], ids=["zeros", "garbage"])
async def test_a_copy_whose_newest_message_is_damaged_asks_for_it_again(damage: bytes) -> None:
    data = (await masters_log())[:FILE_BYTES]
    disk = memory_disk()
    async with killed_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[:3000]])
        copy.dispatch()
        await store.flush()
        newest = copy.last_record()
        end = copy.end
    assert newest is not None
    disk = disk.for_next_process()
    file = disk.open(ROOT / "commitlog" / f"{0:020}")
    file.pwrite(damage.ljust(end - newest, damage[-1:]), newest)
    file.close()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        assert copy.end == newest
        copy.append(newest, [data[newest:]])
        copy.dispatch()
        await copy.close()
    check(disk, SLAVE)
