"""Periodic work with a parent: what a server does every few seconds starts with it and ends with it.

    async with Background(clock) as background:
        background.every(10, scan, first_after=5)
        await stop.wait()

A run that fails is logged and is not the last. Leaving the block cancels all of it and waits until it has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from skyrocketmq.loop_watch import LoopWatch, start_task
from skyrocketmq.ports import Clock, every

__all__ = ["Background"]

logger = logging.getLogger(__name__)


class Background:
    """The periodic tasks of one service. `watch` hears of steps that take too long."""

    def __init__(self, clock: Clock, *, watch: LoopWatch | None = None) -> None:
        self._clock = clock
        self._watch = watch
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Background:
        return self

    def every(
        self, seconds: float, work: Callable[[], Awaitable[object] | object], *, first_after: float | None = None
    ) -> None:
        """Run `work` `first_after` seconds from now, and again `seconds` after each run has ended."""
        name = getattr(work, "__qualname__", repr(work))

        def failed(error: Exception) -> None:
            logger.error("periodic work failed", extra={"work": name}, exc_info=error)

        running = every(seconds, work, clock=self._clock, first_after=first_after, on_error=failed)
        self._tasks.append(start_task(running, name=name, watch=self._watch))

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
