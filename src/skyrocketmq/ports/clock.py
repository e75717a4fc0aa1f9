"""Time: what is read from a clock, and every way to wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

__all__ = ["Clock", "SystemClock", "Timer", "every", "pause", "thread_cpu_s"]


class Timer(Protocol):
    """A call that is yet to come."""

    def cancel(self) -> None: ...


@runtime_checkable
class Clock(Protocol):
    """Wall time for what is stored and shown, monotonic time for what is measured, and every way to wait."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as the protocol and the files write them."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Cancel the body and raise `TimeoutError` once `seconds` have passed; `None` means never."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back on the loop after `seconds`, without a task."""
        ...


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # read for every buffer: no frame of its own

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


def thread_cpu_s() -> float:
    """CPU time of the calling thread, in seconds: for measurements, which no clock of a test moves."""
    return time.thread_time()


def pause(seconds: float) -> None:
    """Wait where there is no loop: in a task of Spark's, which is one thread and waits for nothing else."""
    time.sleep(seconds)


async def every(
    seconds: float,
    work: Callable[[], Awaitable[object] | object],
    *,
    clock: Clock,
    first_after: float | None = None,
    on_error: Callable[[Exception], object],
) -> None:
    """Run `work` for ever, `seconds` after its last run ended; a failed run goes to `on_error` and is not the last.

    Cancel the task that runs this to stop it.
    """
    await clock.sleep(seconds if first_after is None else first_after)
    while True:
        try:
            outcome = work()
            if isinstance(outcome, Awaitable):
                await outcome
        except Exception as error:
            on_error(error)
        await clock.sleep(seconds)
