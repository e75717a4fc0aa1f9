"""A clock that stands still until a test moves it.

    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    await clock.advance(10)          # the sleeper has run on when this returns

Timers fire in the order of their times, those of equal time in the order in which they were set, each with the clock
showing its own time; so two runs of a test are the same run. Between two times everything that is ready runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from heapq import heappop, heappush
from types import TracebackType

__all__ = ["ManualClock"]

START_MS = 1_700_000_000_000  # an ordinary day in 2023
SETTLE_ROUNDS = 20  # turns of the loop after each step: a chain of callbacks longer than this needs `settle` again
_ROUNDING_S = 1e-9  # sums of floats: ten times 0.1 s is due after 1 s


class ManualClock:
    """A `Clock` for tests. `advance` and `skip` move time; `set_wall` moves what it is called."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms
        self._now = 0.0
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._timer_count = 0

    def now_ms(self) -> int:
        return self._start_ms + round(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return _ManualTimeout(self, seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> _ManualTimer:
        """What is due at once runs with the next turn of the loop, without `advance`, as with a real clock."""
        timer = _ManualTimer(callback)
        if seconds <= 0:
            asyncio.get_running_loop().call_soon(timer.fire)
        else:
            self._timer_count += 1
            heappush(self._timers, (self._now + seconds, self._timer_count, timer))
        return timer

    @property
    def timer_count(self) -> int:
        """Timers that are yet to fire: a test can see that none is left behind."""
        return sum(not timer.is_over for _, _, timer in self._timers)

    @property
    def next_timer_s(self) -> float | None:
        """Seconds until the next timer fires."""
        return min((at for at, _, timer in self._timers if not timer.is_over), default=self._now) - self._now or None

    async def advance(self, seconds: float) -> None:
        """Move time forward, firing timers on the way and letting what they wake run until it waits again."""
        assert seconds >= 0, "time does not run backwards"
        target = self._now + seconds
        await self.settle()
        while self._timers and self._timers[0][0] <= target + _ROUNDING_S:
            at = self._timers[0][0]
            self._now = max(self._now, at)
            while self._timers and self._timers[0][0] == at:
                asyncio.get_running_loop().call_soon(heappop(self._timers)[2].fire)
            await self.settle()
        self._now = target

    async def skip(self, seconds: float) -> None:
        """Move time forward in one step: what is due by then fires once, in order, with the clock showing the end.

        For long jumps, where `advance` would run all that is done every half second thousands of times.
        """
        assert seconds >= 0, "time does not run backwards"
        await self.settle()
        self._now += seconds
        while self._timers and self._timers[0][0] <= self._now + _ROUNDING_S:
            asyncio.get_running_loop().call_soon(heappop(self._timers)[2].fire)
        await self.settle()

    def set_wall(self, seconds: float) -> None:
        """Set the time of day forward, or back if negative, as an operator or a time server does. No timer notices."""
        self._start_ms += round(seconds * 1000)

    async def settle(self) -> None:
        """Let everything that is ready run, and what that makes ready; time stands still."""
        for _ in range(SETTLE_ROUNDS):
            await asyncio.sleep(0)


class _ManualTimer:
    __slots__ = ("_callback", "is_over")

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True

    def fire(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._callback()


class _ManualTimeout:
    """`asyncio.timeout` on a clock of one's own: cancels the body, and turns that into `TimeoutError` at its end."""

    def __init__(self, clock: ManualClock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._timer: _ManualTimer | None = None
        self._has_expired = False

    async def __aenter__(self) -> _ManualTimeout:
        task = asyncio.current_task()
        assert task is not None, "a timeout needs a task to cancel"
        self._task = task
        self._cancelling_before = task.cancelling()
        if self._seconds is not None:
            self._timer = self._clock.call_later(self._seconds, self._expire)
        return self

    def _expire(self) -> None:
        self._has_expired = True
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # A cancellation that came from elsewhere at the same moment is counted too, and stays one.
        if self._has_expired and self._task.uncancel() <= self._cancelling_before and kind is asyncio.CancelledError:
            raise TimeoutError from error
