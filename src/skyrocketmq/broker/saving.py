"""Keeping the file of a table up to date.

Rule 1: one write at a time a file, of the newest state: changes that come while one is under way share the next.
Rule 2: the state becomes text on the loop, a part at a time with others' turns in between, and is written in a thread
of the disk. A thread that encoded a large table would hold the interpreter's lock, and with it the loop, for longer.
What may change in place (offsets) is as it was when its part was made: no older than the call of `save`.
Rule 3: a write that fails is tried again until it succeeds; the table in memory goes on meanwhile. Who has to know
waits for `save`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from skyrocketmq.loop_watch import LoopWatch, start_task
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.slices import joined_in_slices

__all__ = ["Saver"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_S = 1.0


class Saver(Generic[T]):
    """Writes a table's `snapshot`, which `encode` makes parts of, whenever its `version` is another than the one last
    written.

    `run` follows `changed`, which may be given to a table as a listener; a table that is written at intervals needs
    neither: its owner calls `save`.
    """

    def __init__(
        self,
        name: str,
        *,
        version: Callable[[], object],
        snapshot: Callable[[], T],
        encode: Callable[[T], Iterable[bytes]],
        write: Callable[[bytes], object],
        disk: Disk,
        clock: Clock,
        before_write: Callable[[], Awaitable[object]] | None = None,
        watch: LoopWatch | None = None,
    ) -> None:
        """`before_write` is awaited between encoding and writing: what must be durable before the file may say so."""
        self._name = name
        self._before_write = before_write
        self._version = version
        self._snapshot = snapshot
        self._encode = encode
        self._write = write
        self._disk = disk
        self._clock = clock
        self._watch = watch
        self._saved_version = version()  # what was loaded is what is in the file
        self._writing: asyncio.Task[None] | None = None
        self._has_changed = asyncio.Event()

    @property
    def is_saved(self) -> bool:
        """Whether the file holds the table as it is."""
        return self._version() == self._saved_version

    def changed(self, _: object = None) -> None:
        """The table is another: `run` will write it."""
        self._has_changed.set()

    async def run(self) -> None:
        """Write after each change, for ever. Cancel the task that runs this to stop it, then `save` once more."""
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            try:
                await self.save()
            except OSError as error:
                logger.error("table not saved", extra={"file": self._name, "reason": str(error)})
                await self._clock.sleep(RETRY_S)
                self._has_changed.set()

    async def save(self) -> None:
        """When this returns, the file holds the table as it was at the call, or newer.

        Raises `OSError`, or what `before_write` raises; the file is then as it was.
        """
        if self._writing is not None:
            await asyncio.wait([self._writing])  # it may have begun before the last change: its outcome says nothing
        if self.is_saved:
            return
        if self._writing is None:
            self._writing = start_task(self._write_once(), name=f"save {self._name}", watch=self._watch)
            self._writing.add_done_callback(_look_at_outcome)
        # Others may wait for the same write, and a thread cannot be stopped: it is not cancelled because this call is.
        await asyncio.shield(self._writing)

    async def _write_once(self) -> None:
        version = self._version()
        try:
            data = await joined_in_slices(self._encode(self._snapshot()), self._clock)
            if self._before_write is not None:
                await self._before_write()
            await self._disk.run(self._write, data)
            self._saved_version = version
        finally:
            self._writing = None


def _look_at_outcome(task: asyncio.Task[None]) -> None:
    """Whoever waited may have been cancelled; a failure is then nobody's, and `run` meets it again."""
    if not task.cancelled():
        task.exception()
