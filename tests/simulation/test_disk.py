"""The disk of a simulated node: a sync is done at any moment of the time it takes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from skyrocketmq.testing.simulation.clock import SimClock
from skyrocketmq.testing.simulation.disk import SimDisk
from skyrocketmq.testing.simulation.loop import SimLoop

ROOT = Path("/d")


def durable_after_a_cut_during_a_sync(seed: int) -> tuple[bool, float]:
    """Whether the bytes were there when the power went in the middle of a sync, and when it would have ended."""

    async def story() -> tuple[bool, float]:
        disk = SimDisk(SimClock(loop), random.Random(seed), directories=[ROOT])
        disk.usual_s = 1.0
        file = disk.open(ROOT / "file", create=True)
        disk.sync_directory(ROOT)
        file.pwrite(b"bytes", 0)
        process = loop.process("p")
        process.start(disk.run(file.fdatasync), name="sync")
        await SimClock(loop).sleep(0.5)
        process.kill()
        found = disk.after_power_loss()
        return found.read(ROOT / "file") == b"bytes", loop.time()

    loop = SimLoop()
    return loop.run(story())


def test_a_power_cut_during_a_sync_finds_it_done_or_not() -> None:
    outcomes = {durable_after_a_cut_during_a_sync(seed)[0] for seed in range(20)}
    assert outcomes == {True, False}


def test_a_sync_takes_its_time_and_a_full_disk_refuses() -> None:
    async def story() -> None:
        clock = SimClock(loop)
        disk = SimDisk(clock, random.Random(1), directories=[ROOT])
        disk.slow_s = 3.0
        file = disk.open(ROOT / "file", create=True)
        await disk.run(file.fdatasync)
        assert loop.time() >= 3.0
        disk.fill(8192)
        file.pwrite(bytes(8000), 0)
        with pytest.raises(OSError, match="No space"):
            file.pwrite(bytes(8000), 8192)
        disk.capacity_bytes = None
        file.pwrite(bytes(8000), 8192)

    loop = SimLoop()
    loop.run(story())
