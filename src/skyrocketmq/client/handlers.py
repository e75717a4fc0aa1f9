"""The user's functions that consume messages: async or plain, for one message or for a list.

An async handler runs on the loop. A plain function runs in a thread of the consumer's pool, so that one that blocks
holds up nothing but its own messages.

What cannot have been meant is refused, for otherwise messages would count as consumed that nobody has looked at: a
function with `yield` in it, whose body never runs, when it is subscribed; a result that is no result but a function
(`ConsumeResult.retry` without its parentheses), a generator or a bare `Verdict`, as a failure of the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import (
    isasyncgen,
    isasyncgenfunction,
    isawaitable,
    iscoroutinefunction,
    isgenerator,
    isgeneratorfunction,
)
from typing import Any, Final

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.handler_threads import HandlerThreads
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageView

__all__ = ["MessageHandler", "handler_of", "result_of"]

BATCH_MAX: Final = 1024


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

    def argument(self, messages: list[MessageView]) -> object:
        """What the function is called with; a list is a copy, to do with what it likes."""
        return messages[0] if self.batch_count is None else list(messages)

    async def call(self, messages: list[MessageView], threads: HandlerThreads) -> ConsumeResult:
        """Let the user's code have the messages. Raises what it raises."""
        argument = self.argument(messages)
        outcome = self.function(argument) if self.is_async else await threads.run(self.function, argument)
        return result_of(await outcome if isawaitable(outcome) else outcome)


def result_of(outcome: object) -> ConsumeResult:
    """What a handler's return value means: consumed, unless it says otherwise. Raises for what can only be a slip."""
    if isinstance(outcome, ConsumeResult):
        return outcome
    if callable(outcome) or isinstance(outcome, Verdict) or isgenerator(outcome) or isasyncgen(outcome):
        raise IllegalArgument(
            f"the handler returned {outcome!r}: return nothing, or a ConsumeResult such as ConsumeResult.RETRY or "
            "ConsumeResult.retry(delay_level=3)"
        )
    return ConsumeResult.SUCCESS


def handler_of(function: Callable[[Any], object | Awaitable[object]], *, batch: int | None) -> MessageHandler:
    """The handler in a user's function; `batch` is the longest list it takes, None for one message at a time."""
    if not callable(function):
        raise IllegalArgument(f"the handler {function!r} cannot be called")
    if batch is not None and not 1 <= batch <= BATCH_MAX:
        raise IllegalArgument(f"batch = {batch} is not from 1 to {BATCH_MAX}")
    called = getattr(function, "__call__", None)  # noqa: B004
    if any(isgeneratorfunction(each) or isasyncgenfunction(each) for each in (function, called)):
        raise IllegalArgument(
            f"the handler {function!r} has 'yield' in it, so that a call runs nothing: return a ConsumeResult instead"
        )
    is_async = iscoroutinefunction(function) or iscoroutinefunction(called)
    return MessageHandler(function, is_async, batch)
