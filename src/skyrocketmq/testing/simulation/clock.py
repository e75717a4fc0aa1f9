"""The clock of one node: true time, its wall clock set wrong, and its oscillator a little off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from skyrocketmq.ports import Timer
from skyrocketmq.testing.simulation.loop import SimLoop

__all__ = ["START_MS", "SimClock"]

START_MS: Final = 1_700_000_000_000  # an ordinary day in 2023


class SimClock:
    """A `Clock` on the loop's time. `skew_ms` is how far its wall clock is ahead; `drift` how much faster it runs, as a
    share of a second for each second (monotonic time runs with it)."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._rate = 1.0
        self.skew_ms = 0

    def set(self, *, skew_ms: int = 0, drift: float = 0.0) -> None:
        """Be a wrong clock from the beginning."""
        assert self._loop.time() == 0, "a clock that runs can only jump"
        self.skew_ms, self._rate = skew_ms, 1.0 + drift

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock. What measures time does not notice."""
        self.skew_ms += round(seconds * 1000)

    @property
    def ahead_ms(self) -> int:
        """How far the wall clock is ahead of true time now."""
        return self.now_ms() - START_MS - round(self._loop.time() * 1000)

    def now_ms(self) -> int:
        return START_MS + round(self._loop.time() * self._rate * 1000) + self.skew_ms

    def monotonic(self) -> float:
        return self._loop.time() * self._rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(None if seconds is None else seconds / self._rate)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_later(seconds / self._rate, callback)
