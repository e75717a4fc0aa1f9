"""Closing is finished even if the one who closes is cancelled meanwhile.

A client that is left half closed leaks its connections and tasks, and its brokers believe that it is still there. What
is run here has time limits of its own, so a cancellation is late at most, never lost.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

__all__ = ["uninterrupted"]

T = TypeVar("T")


async def uninterrupted(task: asyncio.Task[T]) -> T:
    """Wait for a task to its end; a cancellation that comes meanwhile takes effect afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # looked at: the cancellation is the news now
        raise cancelled
    return task.result()
