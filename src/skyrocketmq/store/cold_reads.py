"""Reads that answer at once from memory and go to the disk's threads only for what is not there.

A read is written once, as a generator (`Steps`). It runs through as long as the page cache holds what it needs; a range
that is cold it yields, and is sent the bytes. So the rules of reading know neither threads nor tasks: a pull of fresh
messages is a plain call, and the same code, resumed by an awaiting caller, serves a consumer that is a day behind.

Rule: yielding no range at all asks for a pause, so that a long search does not hold the loop.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from skyrocketmq.ports import Clock, Disk, File
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.store.threads import run_to_end

__all__ = ["ColdRange", "ColdReads", "Pending", "Steps", "run_blocking"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ColdRange:
    """Bytes of a file that are not in the page cache: reading them waits for the device."""

    files: OpenFiles
    path: Path
    position: int
    length: int


Steps: TypeAlias = Generator[Sequence[ColdRange], Sequence[bytes], T]


class Pending(Generic[T]):
    """A read that has met a cold range. `await finish()` gives its result; one that is not wanted is simply dropped."""

    __slots__ = ("_cold", "_reads", "_steps")

    def __init__(self, reads: ColdReads, steps: Steps[T], cold: Sequence[ColdRange]) -> None:
        self._reads = reads
        self._steps = steps
        self._cold = cold

    async def finish(self) -> T:
        """Fetch what is cold, all that is asked for at once in one visit to a thread, and go on to the end."""
        steps, cold = self._steps, self._cold
        try:
            while True:
                try:
                    data = await self._reads.fetch(cold)
                except FileNotFoundError as error:  # cleaned away meanwhile: whoever reads decides what that means
                    cold = steps.throw(error)
                else:
                    cold = steps.send(data)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            steps.close()


class ColdReads:
    """Runs `Steps`, at once or with waiting."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock

    def start(self, steps: Steps[T]) -> T | Pending[T]:
        """The result if everything is in memory, else what to wait for."""
        try:
            cold = next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        return Pending(self, steps, cold)

    async def run(self, steps: Steps[T]) -> T:
        """The result, waiting for the disk where needed."""
        started = self.start(steps)
        return await started.finish() if isinstance(started, Pending) else started

    async def fetch(self, ranges: Sequence[ColdRange]) -> Sequence[bytes]:
        """The bytes of the ranges. Their files stay open meanwhile, even if they are deleted."""
        if not ranges:
            await self._clock.sleep(0)
            return ()
        held: list[tuple[OpenFiles, File]] = []
        reads: list[tuple[File, int, int]] = []
        try:
            for each in ranges:
                file = each.files.hold(each.path)
                held.append((each.files, file))
                reads.append((file, each.length, each.position))
            return await run_to_end(self._disk, _read_all, reads)
        finally:
            for files, file in held:
                files.release(file)


def run_blocking(steps: Steps[T]) -> T:
    """The result, reading what is cold in place: for loading, which has a thread of its own, and for tools."""
    try:
        cold = next(steps)
        while True:
            cold = steps.send([each.files.get(each.path).pread(each.length, each.position) for each in cold])
    except StopIteration as stop:
        result: T = stop.value
        return result


def _read_all(reads: Sequence[tuple[File, int, int]]) -> list[bytes]:
    return [file.pread(length, position) for file, length, position in reads]
