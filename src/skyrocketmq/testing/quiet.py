"""When nothing is under way in a cluster: nothing on its way over a link, no call of the disk unfinished.

Sockets and the threads of a disk live in real time, also in a test whose clock stands still. A jump of that clock while
a request is on its way would look to the one who asked like a silence of that length: its time-out fires before it
has read an answer that was written at once. So the clock is moved only when it is quiet.

Rule 1: a request that a server holds on purpose, such as a pull that waits for messages, is not under way: it waits for
        the clock.
Rule 2: bytes that a test has stalled or delayed are not under way either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final, ParamSpec, TypeVar

from skyrocketmq.ports import LocalDisk
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.link import FaultyLink

P = ParamSpec("P")
T = TypeVar("T")

LOOK_EVERY_S: Final = 0.001  # while a thread of the disk is at work
WAIT_MAX_S: Final = 10.0  # for a call of the disk
ROUNDS_MAX: Final = 200  # with traffic in each: somebody sends without a pause, and would for ever


class CountedDisk(LocalDisk):
    """The machine's disk, which knows how many of its calls are unfinished."""

    def __init__(self) -> None:
        super().__init__()
        self.running_count = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.running_count += 1
        try:
            return await super().run(function, *args, **kwargs)
        finally:
            self.running_count -= 1


async def until_quiet(clock: ManualClock, links: Collection[FaultyLink], disk: object) -> None:
    """Return when nothing is under way. What it led to has happened by then, as far as it happens on this loop."""
    deadline = time.monotonic() + WAIT_MAX_S
    for _ in range(ROUNDS_MAX):
        passed_before = sum(link.passed_count for link in links)
        await clock.settle()
        while isinstance(disk, CountedDisk) and disk.running_count and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_EVERY_S)
            passed_before = -1  # what waited for it goes on now
        if sum(link.passed_count for link in links) == passed_before:
            return
