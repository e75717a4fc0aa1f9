"""The user's functions that consume messages: async or plain, for one message or for a list.

An async handler runs on the loop. A plain function runs in a thread of the consumer's pool, so that one that blocks
holds up nothing but its own messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageView

__all__ = ["HandlerThreads", "MessageHandler", "handler_of"]

BATCH_MAX: Final = 1024


class HandlerThreads:
    """The threads of plain handlers, started when the first is called."""

    def __init__(self, count_max: int, *, name: str) -> None:
        self._count_max = count_max
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[[Any], object], argument: object) -> object:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count_max, thread_name_prefix=f"consume-{self._name}")
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, argument)

    async def close(self) -> None:
        """End the threads; whoever calls this has waited for the handlers, or has given them up."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class MessageHandler:
    """A handler with what is known about it."""

    function: Callable[[Any], object | Awaitable[object]]
    is_async: bool
    batch_count: int | None  # None: it takes one message, not a list

    @property
    def count_max(self) -> int:
        """How many messages a call may have."""
        return self.batch_count or 1

    async def call(self, messages: Sequence[MessageView], threads: HandlerThreads) -> ConsumeResult:
        """Let the user's code have the messages. Raises what it raises."""
        argument: object = messages[0] if self.batch_count is None else list(messages)
        if self.is_async:
            outcome = self.function(argument)
        else:
            outcome = await threads.run(self.function, argument)
        if isawaitable(outcome):
            outcome = await outcome
        return outcome if isinstance(outcome, ConsumeResult) else ConsumeResult.SUCCESS


def handler_of(function: Callable[[Any], object | Awaitable[object]], *, batch: int | None) -> MessageHandler:
    """The handler in a user's function; `batch` is the longest list it takes, None for one message at a time."""
    if not callable(function):
        raise IllegalArgument(f"the handler {function!r} cannot be called")
    if batch is not None and not 1 <= batch <= BATCH_MAX:
        raise IllegalArgument(f"batch = {batch} is not from 1 to {BATCH_MAX}")
    is_async = iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    return MessageHandler(function, is_async, batch)
