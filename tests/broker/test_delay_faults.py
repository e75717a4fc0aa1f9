"""Delayed messages when things go wrong: a store that takes nothing, a disk that fails, a stop, a kill, a power cut."""

from __future__ import annotations

import errno
import logging
from itertools import pairwise

import pytest

from skyrocketmq.errors import FlushFailed, StoreError
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.store import Batch, RunningFlag
from skyrocketmq.testing import FaultyDisk, ManualClock, PowerLost
from tests.broker.delays import TOPIC, Delays, delay_config, open_delays
from tests.store.support import ROOT, check, memory_disk

CONFIG = delay_config(ROOT)
FILE = ROOT / "config" / "delayOffset.json"


def write_file(disk: FaultyDisk, data: bytes, *, suffix: str = "") -> None:
    disk.make_directories(FILE.parent)
    disk.replace(FILE.with_name(FILE.name + suffix), data)


# ------------------------------------------------------------------------------------------------- the store refuses


async def test_what_the_store_refuses_is_delivered_once_it_takes_messages_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        for number in range(5):
            delays.send(1, b"%d" % number)
        delays.store.state.raise_flag(RunningFlag.NOT_WRITABLE)
        with caplog.at_level(logging.INFO, "skyrocketmq.broker.delay"):
            await clock.advance(60)
            assert await delays.bodies() == []
            assert delays.delivery.figures() == {}
            delays.store.state.lower_flag(RunningFlag.NOT_WRITABLE)
            await clock.advance(5)
            assert await delays.bodies() == [b"0", b"1", b"2", b"3", b"4"]

            delays.send(1, b"5")
            delays.store.state.raise_flag(RunningFlag.NOT_WRITABLE)
            await clock.advance(1.05)
            delays.store.state.lower_flag(RunningFlag.NOT_WRITABLE)
            await clock.advance(0.05)
            assert await delays.bodies() == [b"0", b"1", b"2", b"3", b"4", b"5"], "it began with short pauses again"
        turns = ["delayed messages have to wait, the store takes none", "delayed messages are delivered again"]
        assert [record.message for record in caplog.records] == turns * 2, "each turn is said once"
        assert "reading only" in caplog.records[0].reason  # type: ignore[attr-defined]
    check(disk, CONFIG)


async def test_a_refused_level_tries_again_soon_and_then_more_and_more_rarely() -> None:
    clock = ManualClock()
    async with open_delays(memory_disk(), CONFIG, clock) as delays:
        delays.send(1)
        delays.store.state.raise_flag(RunningFlag.NOT_WRITABLE)
        tries: list[int] = []
        begin = delays.store.writer.begin

        def counted() -> Batch:
            tries.append(clock.now_ms())
            return begin()

        delays.store.writer.begin = counted  # type: ignore[method-assign]
        await clock.advance(30)
        pauses = [after - before for before, after in pairwise(tries)]
        assert pauses[:7] == [100, 200, 400, 800, 1600, 3200, 5000]
        assert set(pauses[7:]) == {5000}


async def test_a_write_that_fails_halfway_repeats_nothing_and_loses_nothing() -> None:
    disk, clock = memory_disk(), ManualClock()
    config = delay_config(ROOT, commit_log_file_bytes=4096)
    bodies = [b"%02d" % number * 200 for number in range(40)]
    async with open_delays(disk, config, clock) as delays:
        for body in bodies:
            delays.send(1, body)
        # Those due at once fill several log files, each with a write of its own: the third one fails.
        disk.fail("pwrite", path="*/commitlog/*", error=errno.ENOSPC, after=4)
        await clock.advance(1)
        delivered = await delays.bodies()
        assert 0 < len(delivered) < len(bodies)
        assert delivered == bodies[: len(delivered)]
        await clock.advance(5)
        assert await delays.bodies() == bodies
    check(disk, config)


async def test_without_room_for_the_next_log_file_a_level_waits_where_it_is() -> None:
    disk, clock = memory_disk(), ManualClock()
    config = delay_config(ROOT, commit_log_file_bytes=4096)
    bodies = [b"%02d" % number * 200 for number in range(20)]
    async with open_delays(disk, config, clock) as delays:
        for body in bodies:
            delays.send(1, body)
        disk.fail("allocate", path="*/commitlog/*", error=errno.ENOSPC, times=None)
        await clock.advance(3)
        delivered = await delays.bodies()
        assert len(delivered) < len(bodies)
        assert delivered == bodies[: len(delivered)]
        disk.heal()
        await clock.advance(5)
        assert await delays.bodies() == bodies
    check(disk, config)


async def test_a_level_outlives_an_error_of_the_disk(caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(1)
    async with open_delays(disk, CONFIG, clock) as delays:  # what was there before is read from the disk
        disk.cool()
        disk.fail("pread", path="*/commitlog/*")
        with caplog.at_level(logging.ERROR):
            await clock.advance(1)
        assert [record.message for record in caplog.records] == ["delay level failed"]
        await clock.advance(10)
        assert await delays.bodies() == [b"hello"]


async def test_messages_that_are_no_longer_in_memory_are_fetched_from_the_disk() -> None:
    disk, clock = memory_disk(), ManualClock()
    bodies = [b"%d" % number for number in range(300)]
    async with open_delays(disk, CONFIG, clock) as delays:
        for body in bodies:
            delays.send(2, body)
    async with open_delays(disk, CONFIG, clock) as delays:
        await clock.settle()
        disk.cool()
        await clock.advance(5)
        await delays.settle()
        assert await delays.bodies() == bodies
    check(disk, CONFIG)


# ---------------------------------------------------------------------------------------------------------- the file


async def test_the_file_is_apaches_to_the_byte() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        for level, count in ((4, 2), (3, 10)):
            for _ in range(count):
                delays.send(level)
            await clock.advance(30)
    assert disk.read(FILE) == b'{\n\t"offsetTable":{3:10,4:2\n\t}\n}'


async def test_nothing_is_written_while_nothing_is_delivered() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(4)
        await clock.advance(10)
        await delays.delivery.save_offsets()
    assert not disk.exists(FILE)


async def test_what_was_delivered_before_a_stop_is_not_delivered_again() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(1, b"first")
        await clock.advance(1)
        delays.send(1, b"second")
    await clock.advance(60)
    async with open_delays(disk, CONFIG, clock) as delays:
        await clock.settle()
        assert await delays.bodies() == [b"first", b"second"], "what fell due meanwhile comes at once"
        delays.send(1, b"third")
        await clock.advance(1)
        assert await delays.bodies() == [b"first", b"second", b"third"]
    assert disk.read(FILE) == b'{\n\t"offsetTable":{1:3\n\t}\n}'
    assert disk.read(FILE.with_name("delayOffset.json.bak")) == b'{\n\t"offsetTable":{1:1\n\t}\n}'
    check(disk, CONFIG)


@pytest.mark.parametrize(("saved", "expected"), [(-3, 3), (0, 3), (2, 1), (3, 0), (99, 0)])
async def test_an_offset_outside_of_the_queue_is_brought_into_it(saved: int, expected: int) -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        for _ in range(3):
            delays.send(1)
    write_file(disk, b'{"offsetTable":{1:%d}}' % saved)
    await clock.advance(1)
    async with open_delays(disk, CONFIG, clock) as delays:
        await clock.settle()
        assert len(await delays.bodies()) == expected
        delays.send(1, b"later")
        await clock.advance(1)
        assert (await delays.bodies())[-1] == b"later"
        assert delays.delivery.figures() == {"scheduleMessageOffset_1": "4,4"}


@pytest.mark.parametrize("broken", [b"", b"{", b"\x00" * 40])
async def test_a_broken_file_is_replaced_by_its_copy(broken: bytes) -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        for _ in range(3):
            delays.send(1)
    write_file(disk, b'{"offsetTable":{1:2}}', suffix=".bak")
    write_file(disk, broken)
    await clock.advance(1)
    async with open_delays(disk, CONFIG, clock) as delays:
        await clock.settle()
        assert len(await delays.bodies()) == 1


async def test_two_broken_files_are_somebodys_decision() -> None:
    disk = memory_disk()
    write_file(disk, b"{", suffix=".bak")
    write_file(disk, b"{")
    with pytest.raises(StoreError, match=r"delayOffset\.json"):
        async with open_delays(disk, CONFIG, ManualClock()):
            pass


async def test_levels_that_the_configuration_has_lost_still_deliver() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(4, b"of the fourth")
        delays.send(3, b"of the third")
    fewer = delay_config(ROOT, delay_levels="1s 5s")
    async with open_delays(disk, fewer, clock) as delays:
        delays.send(4, b"of the last that is left")
        await clock.advance(29)
        assert await delays.bodies() == [b"of the last that is left", b"of the third"]
        await clock.advance(1)
        assert await delays.bodies() == [b"of the last that is left", b"of the third", b"of the fourth"]
    assert disk.read(FILE) == b'{\n\t"offsetTable":{2:1,3:1,4:1\n\t}\n}'
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(4, b"again of the fourth")
        await clock.advance(30)
        assert (await delays.bodies())[3:] == [b"again of the fourth"]


async def test_a_level_whose_delay_was_shortened_keeps_nobody_waiting_for_the_old_one() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(4)
    async with open_delays(disk, delay_config(ROOT, delay_levels="1s 1s 1s 2s"), clock) as delays:
        await clock.advance(1.9)
        assert await delays.bodies() == [], "the new delay counts, from when it was stored"
        await clock.advance(0.1)
        assert await delays.bodies() == [b"hello"]


# ---------------------------------------------------------------------------------------------------- kills and power


async def test_a_kill_between_delivery_and_file_repeats_and_loses_nothing() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(1, b"saved")
        await clock.advance(1)
        await delays.delivery.save_offsets()
        delays.send(1, b"not saved")
        delays.send(1, b"neither")
        await clock.advance(1)
        killed = disk.after_power_loss(keep=True)  # the page cache outlives the process
        disk.is_powered = True
    async with open_delays(killed, CONFIG, clock) as delays:
        await clock.settle()
        assert await delays.bodies() == [b"saved", b"not saved", b"neither", b"not saved", b"neither"]
    check(killed, CONFIG)


async def test_the_file_is_never_ahead_of_the_log() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(1)
        await delays.store.flush()
        await clock.advance(1)
        await delays.delivery.save_offsets()
        survivor = disk.after_power_loss()  # all that was not synced is lost
        disk.is_powered = True
    async with open_delays(survivor, CONFIG, clock) as delays:
        await clock.settle()
        assert await delays.bodies() == [b"hello"]


async def test_when_the_log_cannot_be_flushed_the_file_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(1)
        await clock.advance(1)
        disk.fail("fdatasync", path="*/commitlog/*")
        with pytest.raises(FlushFailed):
            await delays.delivery.save_offsets()
    assert not disk.exists(FILE)
    assert "delay offsets not saved" in [record.message for record in caplog.records]


async def test_a_file_that_could_not_be_written_is_written_the_next_time() -> None:
    disk, clock = memory_disk(), ManualClock()
    async with open_delays(disk, CONFIG, clock) as delays:
        delays.send(1)
        await clock.advance(1)
        disk.fail("pwrite", path="*delayOffset*", error=errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            await delays.delivery.save_offsets()
        await delays.delivery.save_offsets()
        assert delays.file() == b'{\n\t"offsetTable":{1:1\n\t}\n}'


SMALL = delay_config(ROOT, commit_log_file_bytes=4096)


class Sender:
    """Sends numbered messages to two levels, and remembers those that were acknowledged as durable."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []

    async def work(self, delays: Delays) -> None:
        """Messages, deliveries and saves, one after the other."""
        for number in range(6):
            delays.send(1 + number % 2, b"%02d" % number + b"." * 300)
            await delays.store.flush()
            self.acknowledged.append(number)
            await delays.clock.advance(0.7)
            if number % 3 == 2:
                await delays.delivery.save_offsets()

    async def live(self, disk: FaultyDisk, clock: ManualClock) -> None:
        """Open, work, close, until the power goes, which may be at any of these."""
        try:
            async with open_delays(disk, SMALL, clock) as delays:
                await self.work(delays)
        except PowerLost:
            pass


@pytest.mark.parametrize("seed", [None, 1], ids=["all lost", "some kept"])
async def test_every_acknowledged_message_is_delivered_whatever_call_the_power_is_lost_at(
    seed: int | None,
) -> None:
    probe = memory_disk()
    await Sender().live(probe, ManualClock())
    for crash_at in range(len(probe.calls)):
        disk, clock, sender = memory_disk(crash_at=crash_at), ManualClock(), Sender()
        await sender.live(disk, clock)
        survivor = disk.after_power_loss(None if seed is None else seed * 1000 + crash_at)
        try:
            await check_deliveries(survivor, clock, sender)
        except BaseException as error:
            error.add_note(f"crash_at={crash_at}, calls={disk.calls[-3:]}")
            raise


async def check_deliveries(disk: FaultyDisk, clock: ManualClock, sender: Sender) -> None:
    async with open_delays(disk, SMALL, clock) as delays:
        await clock.advance(5)
        received = await delays.received()
        waited = {
            (level, record.body): record
            for level in (1, 2)
            for record in await delays.received(SCHEDULE_TOPIC, level - 1)
        }
    numbers = [int(record.body[:2]) for record in received]
    assert set(numbers) >= set(sender.acknowledged)
    for level in (1, 2):
        firsts = list(dict.fromkeys(number for number in numbers if 1 + number % 2 == level))
        assert firsts == sorted(firsts), "in order within a level"
    for record in received:
        level = 1 + int(record.body[:2]) % 2
        delay_ms = (1000, 5000)[level - 1]
        assert record.store_ms >= waited[level, record.body].store_ms + delay_ms, "never early"
    content = check(disk, SMALL)
    assert {record.topic for record in content.records} <= {TOPIC, SCHEDULE_TOPIC}
