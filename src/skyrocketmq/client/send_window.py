"""Sends that nobody waits for one by one: so many at a time, and one place where all of them are waited for.

Rule 1: the window has a limit (`in_flight_max`), and who would go over it waits: a fast source cannot fill the memory.
Rule 2: no error is lost: what has failed since the last `flush` is raised by the next one, even if others saw it, or is
        logged when the producer is closed.
Rule 3: closing waits for what was begun; who still waits for room then gets a `ClientError`.
Rule 4: each place that becomes free wakes one of those who wait, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from skyrocketmq.client.send_result import SendResult
from skyrocketmq.errors import ClientError, IllegalArgument

__all__ = ["IN_FLIGHT_MAX", "SendWindow", "checked_window", "closing_error"]

logger = logging.getLogger(__name__)

IN_FLIGHT_MAX: Final = 1_000


def checked_window(in_flight_max: int) -> int:
    if in_flight_max < 1:
        raise IllegalArgument(f"in_flight_max = {in_flight_max} is below 1: nothing could be sent")
    return in_flight_max


def closing_error() -> ClientError:
    return ClientError("the producer is being closed: this message was not sent")


class SendWindow:
    """The sends of one producer that are under way. Used on one event loop."""

    def __init__(self, in_flight_max: int) -> None:
        self._free_count = checked_window(in_flight_max)
        self._waiting: deque[asyncio.Future[None]] = deque()  # only while nothing is free
        self._is_closing = False
        self._tasks: dict[asyncio.Task[SendResult], None] = {}
        self._errors: deque[Exception] = deque(maxlen=in_flight_max)  # the last ones: it may be that nobody flushes
        self._failed_count = 0  # since the last flush, as the next
        self._begun_count = 0

    def open(self) -> None:
        """Let sends begin: the producer is started, maybe once more."""
        self._is_closing = False

    async def begin(self, send: Callable[[], Coroutine[Any, Any, SendResult]]) -> asyncio.Task[SendResult]:
        """Begin a send as soon as there is room. Raises `ClientError` once the producer is closing."""
        if self._is_closing:
            raise closing_error()
        if self._free_count:
            self._free_count -= 1
        else:
            await self._wait_for_room()
        task = asyncio.get_running_loop().create_task(send())
        self._tasks[task] = None
        self._begun_count += 1
        task.add_done_callback(self._ended)
        return task

    async def _wait_for_room(self) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._free_place()  # it had just got one
            raise
        if self._is_closing:
            self._free_place()
            raise closing_error()

    def _free_place(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():  # it is if who waited was cancelled
                place.set_result(None)
                return
        self._free_count += 1

    def _ended(self, task: asyncio.Task[SendResult]) -> None:
        self._tasks.pop(task, None)
        self._free_place()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._errors.append(error)
            self._failed_count += 1

    async def finish(self) -> None:
        """Wait for all that is under way, each send for as long as its own time limit; the producer is closing."""
        self._is_closing = True
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(closing_error())
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._failed_count:
            logger.warning("messages not sent", extra={"count": self._failed_count, "reason": str(self._errors[-1])})

    async def flush(self) -> None:
        """Wait for all that is under way now; raises an `ExceptionGroup` if some have failed since the last flush."""
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        text = f"{self._failed_count} of {self._begun_count} messages were not sent"
        errors = list(self._errors)
        self._errors.clear()
        self._failed_count = self._begun_count = 0
        if errors:
            raise ExceptionGroup(text, errors)
