"""The power goes at every single call that changes the disk, and what was promised is there."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from skyrocketmq.config import FlushDiskType
from skyrocketmq.errors import StoreError
from skyrocketmq.store import MessageStore, PutStatus
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.support import ROOT, check, killed_store, memory_disk, new_message, open_store, store_config, unique_id

CONFIG = store_config(
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
    commit_log_file_bytes=4096,
    queue_file_bytes=100,
    index_entry_count=8,
    commit_log_delete_pause_ms=0,
    queue_delete_pause_ms=0,
    delete_when=";".join(str(hour) for hour in range(24)),
)
SEEDS = int(os.environ.get("CRASH_SEEDS", "1"))  # more of them are part of `make chaos`
SURVIVALS = [
    pytest.param((None, False), id="all lost"),
    pytest.param((None, True), id="all kept"),
    *(pytest.param((seed, False), id=f"some, seed {seed}") for seed in range(1, 1 + SEEDS)),
]


class Sender:
    """Sends numbered messages, and remembers which were sent and which were acknowledged as durable."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.sent = 0
        self.acknowledged: list[int] = []

    async def send(self, store: MessageStore, *, body_bytes: int = 250) -> None:
        number, self.sent = self.sent, self.sent + 1
        message = new_message(
            "T", number % 2, b"%05d" % number + b"." * body_bytes, unique=unique_id(number), keys=f"k{number}"
        )
        if store.put(message).status is not PutStatus.PUT_OK:
            return
        statuses: list[PutStatus] = []
        store.when_flushed(store.log.max_offset, statuses.append)
        while not statuses:
            if not self.disk.is_powered:
                raise PowerLost("while a sender waited")
            await asyncio.sleep(0)
        if statuses == [PutStatus.PUT_OK]:
            self.acknowledged.append(number)


async def appends(store: MessageStore, sender: Sender) -> None:
    for _ in range(11):
        await sender.send(store, body_bytes=400)


async def checkpoints(store: MessageStore, sender: Sender) -> None:
    for number in range(11):
        await sender.send(store, body_bytes=400)
        if number % 4 == 2:
            await store.checkpoint()


async def cleans(store: MessageStore, sender: Sender) -> None:
    """Nothing that was sent goes: only files full of another topic's messages are old."""
    for number in range(14):
        store.put(new_message("Other", 0, b"%05d" % number + b"o" * 1800, keys=f"o{number}"))
    await store.checkpoint()
    for name in store.log.files[:-1]:
        sender.disk.set_modified_ms(name.path, 0)
    await sender.send(store)
    await store.cleaner.clean()
    await sender.send(store)
    await store.checkpoint()


async def deletes_another_topic(store: MessageStore, sender: Sender) -> None:
    for number in range(6):
        store.put(new_message("Other", 0, b"other"))
        await sender.send(store)
        if number % 3 == 2:
            await store.delete_topic_queues("Other")


async def count_calls(work: Callable[[MessageStore, Sender], Awaitable[None]]) -> int:
    disk = memory_disk()
    async with open_store(disk, CONFIG, clock=ManualClock()) as store:
        await work(store, Sender(disk))
    return len(disk.calls)


async def live(
    disk: FaultyDisk, work: Callable[[MessageStore, Sender], Awaitable[None]] | None, sender: Sender
) -> None:
    """Open, work, close, until the power goes, which may be at any of these."""
    try:
        async with open_store(disk, CONFIG, clock=ManualClock()) as store:
            if work is not None:
                await work(store, sender)
    except PowerLost:
        pass


async def check_survivor(disk: FaultyDisk, sender: Sender) -> None:
    """Recovery works, and works again after a crash of its own; what was acknowledged is there, nothing is invented."""
    async with open_store(disk, CONFIG) as store:
        after = Sender(disk)
        after.sent = 90_000
        await after.send(store)
    content = check(disk, CONFIG, deleted=frozenset({"Other"}))
    stored = [int(record.body[:5]) for record in content.records if record.topic == "T"]
    assert stored[-1] == 90_000
    numbers = stored[:-1]
    assert numbers == sorted(set(numbers)), "in order, and none twice"
    assert set(sender.acknowledged) <= set(numbers)
    assert set(numbers) <= set(range(sender.sent))
    for record in content.records:
        assert record.topic != "T" or set(record.body[5:]) <= {ord(".")}
        assert record.topic != "T" or record.properties["UNIQ_KEY"] == unique_id(int(record.body[:5]))


@pytest.mark.parametrize("work", [appends, checkpoints, deletes_another_topic, cleans])
@pytest.mark.parametrize("survival", SURVIVALS)
async def test_what_was_acknowledged_survives_a_power_cut_at_any_disk_call(
    work: Callable[[MessageStore, Sender], Awaitable[None]], survival: tuple[int | None, bool]
) -> None:
    seed, keep = survival
    for crash_at in range(await count_calls(work)):
        disk = memory_disk(crash_at=crash_at)
        sender = Sender(disk)
        await live(disk, work, sender)
        survivor = disk.after_power_loss(None if seed is None else seed * 1000 + crash_at, keep=keep)
        try:
            await check_survivor(survivor, sender)
        except BaseException as error:
            error.add_note(f"crash_at={crash_at}, survival={survival}, calls={disk.calls[-3:]}")
            raise


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["no space", "broken"])
@pytest.mark.parametrize("operation", ["allocate", "pwrite", "fdatasync", "truncate", "create", "rename", "unlink"])
@pytest.mark.parametrize("work", [checkpoints, cleans])
async def test_what_was_acknowledged_survives_an_error_of_any_disk_call(
    work: Callable[[MessageStore, Sender], Awaitable[None]], operation: str, number: int
) -> None:
    """The call fails once. The store may refuse messages then, and after a failed sync it does so for good."""
    counted = memory_disk()
    async with open_store(counted, CONFIG, clock=ManualClock()) as store:
        before = counted.count(operation)
        await work(store, Sender(counted))
    for after in range(counted.count(operation) - before):
        disk = memory_disk()
        sender = Sender(disk)
        try:
            async with open_store(disk, CONFIG, clock=ManualClock()) as store:
                disk.fail(operation, error=number, after=after)
                await work(store, sender)
        except (StoreError, OSError):
            pass
        disk.heal()
        try:
            for survivor in (disk.after_power_loss(after), disk.after_power_loss()):
                await check_survivor(survivor, sender)
        except BaseException as error:
            error.add_note(f"operation={operation}, after={after}")
            raise


async def test_recovery_itself_may_be_cut_off_at_any_disk_call() -> None:
    disk = memory_disk()
    sender = Sender(disk)
    async with killed_store(disk, CONFIG, clock=ManualClock()) as store:
        await checkpoints(store, sender)
    probe = disk.after_power_loss(7)
    async with open_store(probe, CONFIG):
        calls = len(probe.calls)
    for crash_at in range(calls):
        first = disk.after_power_loss(7)
        first.crash_at = crash_at
        await live(first, None, sender)
        await check_survivor(first.after_power_loss(crash_at), sender)


async def with_parts_lost(lost: str, *, was_clean: bool) -> tuple[FaultyDisk, Sender]:
    """A disk whose checkpoint vouches for queues or an index that are gone."""
    disk = memory_disk()
    sender = Sender(disk)
    if was_clean:
        async with open_store(disk, CONFIG, clock=ManualClock()) as store:
            await checkpoints(store, sender)
        disk.cut_power()
    else:
        async with killed_store(disk, CONFIG, clock=ManualClock()) as store:
            await checkpoints(store, sender)
    disk = disk.after_power_loss(keep=True)
    take_away(disk, ROOT / lost)
    return disk, sender


def take_away(disk: FaultyDisk, path: Path) -> None:
    """All files below a path, for good; directories stay."""
    for name in disk.list(path):
        if disk.is_directory(path / name):
            take_away(disk, path / name)
        else:
            disk.unlink(path / name)
    disk.sync_directory(path)


def copy_of(disk: FaultyDisk) -> FaultyDisk:
    return disk.after_power_loss(keep=True)


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean stop", "kill"])
@pytest.mark.parametrize("lost", ["consumequeue/T/0", "consumequeue", "index"])
async def test_a_start_that_builds_queues_or_index_again_may_be_cut_off_at_any_disk_call(
    lost: str, was_clean: bool
) -> None:
    disk, sender = await with_parts_lost(lost, was_clean=was_clean)
    probe = copy_of(disk)
    async with killed_store(probe, CONFIG):
        calls = len(probe.calls)
    for crash_at in range(calls + 1):
        first = copy_of(disk)
        if crash_at < calls:
            first.crash_at = crash_at
            await live(first, None, sender)
        else:
            async with killed_store(first, CONFIG):
                pass
        for seed in (None, crash_at, 1000 + crash_at, 2000 + crash_at):
            try:
                await check_survivor(first.after_power_loss(seed), sender)
            except BaseException as error:
                error.add_note(f"crash_at={crash_at}, seed={seed}, calls={first.calls[-3:]}")
                raise


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean stop", "kill"])
async def test_a_second_start_that_is_cut_off_goes_on_with_what_the_first_was_building(was_clean: bool) -> None:
    disk, sender = await with_parts_lost("consumequeue", was_clean=was_clean)
    probe = copy_of(disk)
    async with killed_store(probe, CONFIG):
        calls = len(probe.calls)
    for crash_at in range(calls):
        for seed in range(3):
            again = copy_of(disk)
            for life in range(3):
                again.crash_at = crash_at + life
                await live(again, None, sender)
                again = again.after_power_loss(seed * 100 + crash_at * 10 + life)
            await check_survivor(again, sender)


async def test_the_note_of_a_rebuild_is_gone_when_the_rebuild_is_durable() -> None:
    disk, _ = await with_parts_lost("consumequeue", was_clean=True)
    async with killed_store(disk, CONFIG) as store:
        assert store.recovered.rebuilt_queues == ["T-0", "T-1"]
        assert not disk.exists(ROOT / "rebuild.json")
    survivor = disk.after_power_loss()
    async with open_store(survivor, CONFIG) as store:
        assert store.recovered.rebuilt_queues == []
    check(survivor, CONFIG)


async def test_with_a_note_that_nobody_can_read_everything_is_built_again() -> None:
    disk = memory_disk()
    sender = Sender(disk)
    async with open_store(disk, CONFIG, clock=ManualClock()) as store:
        await appends(store, sender)
    disk.replace(ROOT / "rebuild.json", b"{")
    async with open_store(disk, CONFIG) as store:
        assert store.recovered.rebuilt_queues == ["T-0", "T-1"]
        assert store.recovered.index_rebuilt
    await check_survivor(disk, sender)
    assert not disk.exists(ROOT / "rebuild.json")


async def test_the_snapshot_of_a_log_that_was_taken_away_says_nothing_about_the_next_one() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG, clock=ManualClock()) as store:
        await appends(store, Sender(disk))
    take_away(disk, ROOT / "commitlog")
    disk.unlink(ROOT / "checkpoint")  # as the refusal to start without the log says
    sender = Sender(disk)
    async with killed_store(disk, CONFIG) as store:
        for _ in range(15):
            await sender.send(store, body_bytes=333)
    for seed in range(20):
        survivor = disk.after_power_loss(seed)
        await check_survivor(survivor, sender)
