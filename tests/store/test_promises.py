"""What an acknowledgement is worth, cell by cell of the page of guarantees: kills, power cuts, full disks, bad syncs.

What is acknowledged depends on the flush type: with asynchronous flush a message that is stored, with synchronous flush
one that is synced. Slaves are no matter of the store: with or without them it keeps the same.
"""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress

import pytest

from skyrocketmq.config import FlushDiskType, StoreConfig
from skyrocketmq.errors import StoreError
from skyrocketmq.store import MessageStore, PutStatus, RunningFlag
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.support import ROOT, check, memory_disk, new_message, open_store, store_config, unique_id

ASYNC, SYNC = FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH
BOTH = pytest.mark.parametrize("flush", [ASYNC, SYNC])


def config_of(flush: FlushDiskType, *, file_bytes: int = 4096) -> StoreConfig:
    return store_config(flush_disk_type=flush, commit_log_file_bytes=file_bytes)


class Sender:
    """Sends numbered messages; one is acknowledged as its broker would do it."""

    def __init__(self, flush: FlushDiskType, disk: FaultyDisk) -> None:
        self.sent = 0
        self.acknowledged: list[int] = []
        self._flush = flush
        self._disk = disk

    async def send(self, store: MessageStore, *, body_bytes: int = 300) -> PutStatus:
        number, self.sent = self.sent, self.sent + 1
        message = new_message(
            "T", number % 2, b"%05d" % number + b"." * body_bytes, keys=f"k{number}", unique=unique_id(number)
        )
        status = store.put(message).status
        if status is PutStatus.PUT_OK and self._flush is SYNC:
            status = await self._flushed(store)
        if status is PutStatus.PUT_OK:
            self.acknowledged.append(number)
        return status

    async def _flushed(self, store: MessageStore) -> PutStatus:
        statuses: list[PutStatus] = []
        store.when_flushed(store.log.max_offset, statuses.append)
        while not statuses:
            if not self._disk.is_powered:
                raise PowerLost("while a sender waited")
            await asyncio.sleep(0)
        return statuses[0]


async def numbers_after_start(disk: FaultyDisk, config: StoreConfig) -> list[int]:
    async with open_store(disk, config):
        pass
    numbers = [int(record.body[:5]) for record in check(disk, config).records]
    assert numbers == sorted(set(numbers)), "in order, and none twice"
    return numbers


@BOTH
async def test_a_kill_at_any_disk_call_loses_nothing_that_was_acknowledged(flush: FlushDiskType) -> None:
    """The page cache survives: all that was written is there, synced or not."""
    config = config_of(flush)

    async def live(disk: FaultyDisk, sender: Sender) -> None:
        clock = ManualClock()
        with suppress(PowerLost):
            async with open_store(disk, config, clock=clock) as store:
                for number in range(16):
                    await sender.send(store)
                    if number % 5 == 4:
                        await clock.advance(1)
                    if number == 8:
                        await store.checkpoint()

    probe = memory_disk()
    await live(probe, Sender(flush, probe))
    for crash_at in range(len(probe.calls)):
        disk = memory_disk(crash_at=crash_at)
        sender = Sender(flush, disk)
        await live(disk, sender)
        numbers = await numbers_after_start(disk.after_power_loss(keep=True), config)
        assert set(sender.acknowledged) <= set(numbers) <= set(range(sender.sent)), f"crash_at={crash_at}"


@pytest.mark.parametrize("body_bytes", [20_000, 100], ids=["under load", "a few"])
@pytest.mark.parametrize("cut_after_s", [0.05, 0.4, 1.3, 4.9, 11.7, 23.1])
async def test_with_asynchronous_flush_a_power_cut_takes_the_last_moments_and_nothing_before(
    body_bytes: int, cut_after_s: float
) -> None:
    """Half a second where messages fill pages, ten where they do not; and what is lost is lost from the end."""
    config = config_of(ASYNC, file_bytes=1 << 21)
    moments_s = 0.5 if body_bytes > 4 * 4096 else 10.0
    disk, clock = memory_disk(), ManualClock()
    sender = Sender(ASYNC, disk)
    sent_at: list[float] = []
    with suppress(PowerLost):
        async with open_store(disk, config, clock=clock) as store:
            began = clock.monotonic()
            while clock.monotonic() - began < cut_after_s:
                sent_at.append(clock.monotonic())
                await sender.send(store, body_bytes=body_bytes)
                await clock.advance(0.3)
            cut_at = clock.monotonic()
            disk.cut_power()
    assert sender.acknowledged == list(range(sender.sent))
    promised = [number for number, at in enumerate(sent_at) if cut_at - at > moments_s + 0.6]
    for survivor in (disk.after_power_loss(), disk.after_power_loss(1), disk.after_power_loss(2)):
        numbers = await numbers_after_start(survivor, config)
        assert numbers == list(range(len(numbers))), "lost from the end"
        assert len(promised) <= len(numbers) <= sender.sent


@BOTH
async def test_a_full_disk_keeps_what_was_acknowledged_and_takes_messages_again_once_there_is_room(
    flush: FlushDiskType,
) -> None:
    config = config_of(flush)
    disk, clock = memory_disk(capacity_bytes=64_000), ManualClock()
    sender = Sender(flush, disk)
    with suppress(PowerLost):
        async with open_store(disk, config, clock=clock) as store:
            while (status := await sender.send(store)) is PutStatus.PUT_OK:
                assert sender.sent < 200
            assert status is PutStatus.SERVICE_NOT_AVAILABLE
            assert len(sender.acknowledged) > 20
            disk.capacity_bytes = 224_000
            await clock.advance(11)  # the disk is looked at every ten seconds
            assert await sender.send(store) is PutStatus.PUT_OK
            disk.cut_power()
    survivor = disk.after_power_loss(keep=flush is ASYNC)  # killed with asynchronous flush, else even without power
    assert set(sender.acknowledged) <= set(await numbers_after_start(survivor, config))


@BOTH
async def test_after_a_failed_sync_a_start_has_all_that_was_synced_before(flush: FlushDiskType) -> None:
    """The kernel drops what it could not write; senders that waited for that were never told that it is durable."""
    config = config_of(flush, file_bytes=1 << 20)
    disk, clock = memory_disk(), ManualClock()
    sender = Sender(flush, disk)
    with suppress(PowerLost, StoreError):
        async with open_store(disk, config, clock=clock) as store:
            for _ in range(10):
                await sender.send(store, body_bytes=3000)
            await store.flush()
            synced = sender.sent
            disk.fail("fdatasync", path="*/commitlog/*", error=errno.EIO)
            for _ in range(10):
                await sender.send(store, body_bytes=3000)
            await clock.advance(1)
            assert store.state.flags & RunningFlag.FLUSH_FAILED
            assert await sender.send(store) is PutStatus.SERVICE_NOT_AVAILABLE
    assert disk.exists(ROOT / "abort"), "the next start has to recover"
    disk.heal()
    assert sender.acknowledged == list(range(synced if flush is SYNC else 2 * synced))
    for survivor in (disk.after_power_loss(), disk.after_power_loss(keep=True), disk.after_power_loss(3)):
        numbers = await numbers_after_start(survivor, config)
        assert numbers == list(range(len(numbers))), "no message is invented, and none is missing before the last"
        assert synced <= len(numbers) <= 2 * synced
