"""Tasks with a parent: a server or a client owns the tasks of its connections, and ends with none of them running.

A task is not cancelled because its peer went away: what the peer asked for (a one-way request, a change that is half
written) is carried out to its end. Only the owner's `finish` cancels.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from skyrocketmq.ports import Clock

__all__ = ["Tasks"]

logger = logging.getLogger(__name__)


class Tasks:
    """Running tasks. A failure nobody handled is logged, never lost."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], None] = {}  # in the order of their start

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, object], *, name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task failed", extra={"task": task.get_name()}, exc_info=error)

    async def finish(self, *, clock: Clock, grace_s: float) -> int:
        """Wait until every task has ended; after `grace_s` cancel those that have not, and say how many they were."""
        try:
            async with clock.timeout(grace_s):
                while self._running:
                    await asyncio.wait(self._running)
        except TimeoutError:
            pass
        left = list(self._running)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        return len(left)
