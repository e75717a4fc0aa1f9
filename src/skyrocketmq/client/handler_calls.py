"""Calling the user's handler: its result, or what its failure means. Logged here, once, and nowhere else.

A handler may have the task cancelled that it runs in (a timeout of its own that went wrong, say). That is a failure
like any other, and must not end the worker. Only the consumer ends its workers: it is ending once the `watched` task,
which lives as long as the consumer works, is done or being cancelled, by `stop` or together with all tasks of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Final

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.consume_stats import ConsumeStats
from skyrocketmq.client.handler_threads import HandlerThreads
from skyrocketmq.client.handlers import MessageHandler, result_of
from skyrocketmq.model import MessageView
from skyrocketmq.ports import Clock

__all__ = ["SUCCESS", "HandlerCalls"]

logger = logging.getLogger(__name__)

SUCCESS: Final = ConsumeResult.SUCCESS


class HandlerCalls:
    """The calls of one consumer's handlers, with the figures about them."""

    def __init__(self, group: str, *, threads: HandlerThreads, stats: ConsumeStats, clock: Clock) -> None:
        self.scope = threads.scope
        self._group = group
        self._threads = threads
        self._stats = stats
        self._clock = clock
        self.watched: asyncio.Task[None] | None = None

    async def call(self, handler: MessageHandler | None, messages: list[MessageView]) -> ConsumeResult:
        """Let the handler have the messages. Whatever it raises means: again later."""
        if handler is None:
            logger.warning("no handler", extra=self.describe(messages))
            return ConsumeResult.RETRY
        started = self._clock.monotonic()
        try:
            result = await handler.call(messages, self._threads)
        except (Exception, asyncio.CancelledError) as error:
            result = self.failed(messages, error)
        self.note(messages, result, self._clock.monotonic() - started)
        return result

    def failed(self, messages: list[MessageView], error: BaseException) -> ConsumeResult:
        """What a handler raised means: again later. Raises it again if it is the consumer that is being stopped."""
        self.raise_if_ending(error)
        return self._failed(messages, error)

    def raise_if_ending(self, error: BaseException) -> None:
        """Let a cancellation through if the consumer ends; take it back if it was meant for a handler."""
        task = asyncio.current_task()
        if not isinstance(error, asyncio.CancelledError) or task is None or not task.cancelling():
            return  # a cancellation that is not this task's: of something that the handler waited for
        watched = self.watched
        if watched is None or watched.done() or watched.cancelling():
            raise error
        while task.uncancel():
            pass

    def submit(
        self,
        handler: MessageHandler,
        messages: list[MessageView],
        *,
        begin: Callable[[], bool],
        done: Callable[[ConsumeResult | Awaitable[object]], object],
    ) -> None:
        """Let a plain handler have the messages in a thread, without anybody waiting for it.

        `begin` is called in the thread before it; False leaves the handler out, and `done`, too. `done` gets the result
        on the loop; what a function returned that has to be awaited, as it is.
        """
        clock, function, argument = self._clock, handler.function, handler.argument(messages)

        def job() -> tuple[ConsumeResult | Awaitable[object], float] | None:
            if not begin():
                return None
            started = clock.monotonic()
            returned = function(argument)
            seconds = clock.monotonic() - started
            return (returned if isawaitable(returned) else result_of(returned)), seconds

        def ended(outcome: tuple[ConsumeResult | Awaitable[object], float] | None, error: BaseException | None) -> None:
            if error is not None:
                result = self._failed(messages, error)
                self.note(messages, result, 0.0)
                done(result)
            elif outcome is not None:
                returned, seconds = outcome
                if isinstance(returned, ConsumeResult):
                    self.note(messages, returned, seconds)
                done(returned)

        self._threads.submit(job, ended)

    def note_consumed(self, messages: list[MessageView], seconds: float, *, call_count: int) -> None:
        """Count several calls for messages of one topic that have all been consumed."""
        self._stats.note(messages[0].topic, seconds, len(messages), 0, call_count=call_count)

    async def close(self, *, grace_s: float) -> int:
        """End the threads of plain handlers; how many of these did not end in time."""
        return await self._threads.close(clock=self._clock, grace_s=grace_s)

    def note(self, messages: list[MessageView], result: ConsumeResult, seconds: float) -> None:
        """Count a call that has ended."""
        failed_count = 0 if result is SUCCESS else len(failed_messages(result, messages))
        self._stats.note(messages[0].topic, seconds, len(messages) - failed_count, failed_count)

    def _failed(self, messages: list[MessageView], error: BaseException) -> ConsumeResult:
        logger.warning("handler failed", extra=self.describe(messages), exc_info=error)
        return ConsumeResult.RETRY

    def describe(self, messages: Sequence[MessageView]) -> dict[str, object]:
        """What the log says about messages: never their bodies."""
        first = messages[0]
        return {
            "group": self._group,
            "topic": first.topic,
            "message_id": first.msg_id,
            "count": len(messages),
            "reconsume_times": first.reconsume_times,
        }


def failed_messages(result: ConsumeResult, messages: list[MessageView]) -> list[MessageView]:
    """Those that are to come again."""
    if result.verdict is Verdict.RETRY:
        return messages
    return [] if result.consumed_count is None else messages[result.consumed_count :]
