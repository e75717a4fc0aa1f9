from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from skyrocketmq.broker.saving import RETRY_S, Saver
from skyrocketmq.ports import LocalDisk
from skyrocketmq.testing import ManualClock
from tests.broker.support import until


class Table:
    """A table of one number, and a file that can be held up or broken."""

    def __init__(self) -> None:
        self.version = 0
        self.written: list[int] = []
        self.is_free = threading.Event()
        self.is_free.set()
        self.is_broken = False
        self.started_count = 0

    def write(self, data: bytes) -> None:
        self.started_count += 1
        assert self.is_free.wait(10)
        if self.is_broken:
            raise OSError(28, "No space left on device")
        self.written.append(int(data))


@pytest.fixture
async def disk() -> AsyncIterator[LocalDisk]:
    disk = LocalDisk()
    yield disk
    disk.close()


def saver(table: Table, disk: LocalDisk, clock: ManualClock | None = None) -> Saver[int]:
    return Saver(
        "table.json",
        version=lambda: table.version,
        snapshot=lambda: table.version,
        encode=lambda version: [b"%d" % version],
        write=table.write,
        disk=disk,
        clock=clock or ManualClock(),
    )


async def test_what_was_loaded_is_not_written_again(disk: LocalDisk) -> None:
    table = Table()
    table.version = 5
    await saver(table, disk).save()
    assert table.written == []


async def test_a_change_is_on_disk_when_save_returns(disk: LocalDisk) -> None:
    table = Table()
    keeper = saver(table, disk)
    table.version = 1
    await keeper.save()
    await keeper.save()
    assert table.written == [1]


async def test_a_change_during_a_write_is_written_by_the_next(disk: LocalDisk) -> None:
    table = Table()
    keeper = saver(table, disk)
    table.is_free.clear()
    table.version = 1
    first = asyncio.create_task(keeper.save())
    await until(lambda: table.started_count == 1)
    others = []
    for version in (2, 3, 4):
        table.version = version
        others.append(asyncio.create_task(keeper.save()))
    await asyncio.sleep(0)
    table.is_free.set()
    await asyncio.gather(first, *others)
    assert table.written == [1, 4]  # the three that came meanwhile share one write


async def test_a_caller_that_gives_up_does_not_stop_the_write_of_others(disk: LocalDisk) -> None:
    table = Table()
    keeper = saver(table, disk)
    table.is_free.clear()
    table.version = 1
    impatient = asyncio.create_task(keeper.save())
    patient = asyncio.create_task(keeper.save())
    await until(lambda: table.started_count == 1)
    impatient.cancel()
    table.is_free.set()
    await patient
    assert table.written == [1]


async def test_a_failed_write_is_the_callers_to_know_and_is_tried_again_by_the_next_save(disk: LocalDisk) -> None:
    table = Table()
    keeper = saver(table, disk)
    table.is_broken = True
    table.version = 1
    with pytest.raises(OSError, match="No space"):
        await keeper.save()
    table.is_broken = False
    await keeper.save()
    assert table.written == [1]


async def test_run_writes_after_each_change_and_tries_again_after_a_failure(disk: LocalDisk) -> None:
    table = Table()
    clock = ManualClock()
    keeper = saver(table, disk, clock)
    running = asyncio.create_task(keeper.run())
    table.version = 1
    keeper.changed()
    await until(lambda: table.written == [1])
    table.is_broken = True
    table.version = 2
    keeper.changed()
    await until(lambda: clock.timer_count == 1)
    table.is_broken = False
    await clock.advance(RETRY_S)
    await until(lambda: table.written == [1, 2])
    running.cancel()
    await asyncio.wait([running])
