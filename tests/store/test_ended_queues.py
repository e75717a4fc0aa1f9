"""A topic that was deleted and made again goes on with its numbers: nobody who has read the old ones misses the new."""

from __future__ import annotations

import errno

import pytest

from skyrocketmq.config import BrokerRole
from skyrocketmq.errors import StoreError
from skyrocketmq.store import MessageStore, ended_queues
from skyrocketmq.store.ended_queues import ENDED_NAME, EndedQueues
from skyrocketmq.store.inspection import inspect
from skyrocketmq.store.replica import LogCopy
from skyrocketmq.store.reservations import AHEAD_MIN, read_reserved
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.reader import read_records
from tests.store.support import ROOT, check, killed_store, memory_disk, new_message, open_store, put_ok, store_config

DELETED = frozenset({"T"})


def fill(store: MessageStore, count: int, *, topic: str = "T") -> None:
    for number in range(count):
        put_ok(store, new_message(topic, 0, b"%d" % number))


async def bodies_from(store: MessageStore, offset: int) -> list[bytes]:
    found = await store.read_messages("T", 0, offset, 32)
    assert found is not None
    return [record.body for part in found.parts for record in read_records(bytes(part))]


@pytest.mark.parametrize("end", ["stop", "kill", "power cut"])
@pytest.mark.parametrize("count", [5, 10, 25], ids=["within a file", "a whole file", "some files"])
async def test_numbers_go_on_in_the_next_life_whatever_ended_this_one(end: str, count: int) -> None:
    disk = memory_disk()
    opened = open_store if end == "stop" else killed_store
    async with opened(disk) as store:
        fill(store, count)
        await store.delete_topic_queues("T")
        assert not disk.exists(ROOT / "consumequeue" / "T")
    disk = disk.after_power_loss() if end == "power cut" else disk.for_next_process()
    async with open_store(disk) as store:
        assert not list(store.queues)
        begin = int(store.max_offset("T", 0))
        assert begin >= count
        assert begin == count or end == "power cut"
        assert store.min_offset("T", 0) == begin
        assert put_ok(store, new_message("T", 0, b"new")).queue_offset == begin
        assert await bodies_from(store, begin) == [b"new"]
    async with open_store(disk) as store:
        assert not store.recovered.rebuilt_queues
        assert store.min_offset("T", 0) == begin
        assert await bodies_from(store, begin) == [b"new"]
    check(disk, deleted=DELETED)


@pytest.mark.parametrize("count", [0, 3], ids=["without messages", "with new messages"])
async def test_a_check_of_the_store_finds_nothing_wrong_with_a_topic_that_is_back(count: int) -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 25)
        await store.delete_topic_queues("T")
        fill(store, count)
    report = inspect(disk, store_config())
    assert not report.broken_queues
    assert report.is_intact, report.findings


async def test_a_topic_that_is_back_is_not_built_anew_after_a_kill() -> None:
    disk = memory_disk()
    async with killed_store(disk) as store:
        fill(store, 25)
        await store.delete_topic_queues("T")
        put_ok(store, new_message("T", 0, b"new"))
    disk = disk.for_next_process()
    async with open_store(disk) as store:
        assert not store.recovered.rebuilt_queues
        assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (25, 26)


async def test_no_number_is_given_twice_wherever_the_power_goes_during_a_deletion() -> None:
    async def live(disk: FaultyDisk, seen: dict[int, bytes], name: bytes) -> None:
        try:
            async with open_store(disk, clock=ManualClock()) as store:
                for number in range(6):
                    body = b"%b%d" % (name, number)
                    offset = put_ok(store, new_message("T", 0, body)).queue_offset
                    assert seen.setdefault(int(offset), body) == body, f"number {offset} was given twice"
                    if number % 3 == 2:
                        await store.delete_topic_queues("T")
                raise PowerLost
        except PowerLost:
            pass

    counted = memory_disk()
    await live(counted, {}, b"a")
    for crash_at in range(len(counted.calls)):
        seen: dict[int, bytes] = {}
        disk = memory_disk(crash_at=crash_at)
        for life in (b"a", b"b"):
            await live(disk, seen, life)
            disk = disk.after_power_loss()
        await live(disk, seen, b"c")


async def test_nothing_is_reserved_for_a_topic_that_is_gone() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with killed_store(disk, clock=clock) as store:
        fill(store, 3)
        await store.delete_topic_queues("T")
        await clock.settle()
        assert not read_reserved(disk, ROOT)
    disk = disk.after_power_loss()
    async with open_store(disk) as store:
        assert put_ok(store, new_message("T", 0, b"new")).queue_offset == 3


async def test_a_queue_that_another_program_has_begun_at_0_moves_on() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 20)
        await store.delete_topic_queues("T")
    ended = disk.read(ROOT / ENDED_NAME)
    disk.unlink(ROOT / ENDED_NAME)  # nobody else looks at it
    async with open_store(disk) as store:
        fill(store, 4)
    disk.replace(ROOT / ENDED_NAME, ended)
    async with open_store(disk) as store:
        assert put_ok(store, new_message("T", 0, b"new")).queue_offset == 20
        assert await bodies_from(store, 0) == [b"0", b"1", b"2", b"3"]
    check(disk, deleted=DELETED)


async def test_a_slaves_queue_goes_on_with_the_topic_that_was_made_again() -> None:
    disk, copy_disk = memory_disk(), memory_disk()
    async with open_store(disk) as store:
        fill(store, 12)
        await store.delete_topic_queues("T")
        fill(store, 3)
        data = disk.read(store.log.files[0].path)[: store.log.max_offset]
    async with open_store(copy_disk, store_config(broker_role=BrokerRole.SLAVE)) as store:
        copy = LogCopy(store, copy_disk)
        copy.append(0, [data])
        copy.dispatch()
        assert store.max_offset("T", 0) == 15
        assert await bodies_from(store, 12) == [b"0", b"1", b"2"]
        await copy.close()


async def test_a_queue_whose_end_cannot_be_saved_keeps_its_files() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 20)
        await store.checkpoint()
        disk.fail("rename", error=errno.ENOSPC, path=f"*{ENDED_NAME}*")
        with pytest.raises((StoreError, OSError)):
            await store.delete_topic_queues("T")
        assert disk.exists(ROOT / "consumequeue" / "T" / "0")
        assert store.max_offset("T", 0) == 20
        await store.checkpoint()
    async with open_store(disk) as store:
        assert put_ok(store, new_message("T", 0, b"new")).queue_offset >= 20


def test_the_newest_ends_are_kept_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_queues, "COUNT_MAX", 8)
    disk = memory_disk()
    ended = EndedQueues(disk, ROOT)
    for number in range(100):
        ended.add({(f"T{number}", 0): number + 1})
        ended.save()
        again = EndedQueues(disk, ROOT)
        again.load()
        assert [again.find(f"T{number - back}", 0) for back in range(min(number, 5))] == [
            number + 1 - back for back in range(min(number, 5))
        ]
    assert not again.find("T90", 0)
    assert len(disk.read(ROOT / ENDED_NAME)) <= 32 * 9


def test_an_entry_that_is_cut_off_does_not_hide_the_next() -> None:
    disk = memory_disk()
    ended = EndedQueues(disk, ROOT)
    ended.add({("T", 0): AHEAD_MIN})
    ended.save()
    file = disk.open(ROOT / ENDED_NAME)
    file.pwrite(b"torn", file.size())
    file.close()
    ended.add({("T", 1): 7})
    ended.save()
    again = EndedQueues(disk, ROOT)
    again.load()
    assert (again.find("T", 0), again.find("T", 1), again.find("T", 2)) == (AHEAD_MIN, 7, 0)
