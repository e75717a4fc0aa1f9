"""Calling the user's handler: its result, or what its failure means. Logged here, once, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.consume_stats import ConsumeStats
from skyrocketmq.client.handlers import HandlerThreads, MessageHandler
from skyrocketmq.model import MessageView
from skyrocketmq.ports import Clock

__all__ = ["HandlerCalls"]

logger = logging.getLogger(__name__)


class HandlerCalls:
    """The calls of one consumer's handlers, with the figures about them."""

    def __init__(self, group: str, *, threads: HandlerThreads, stats: ConsumeStats, clock: Clock) -> None:
        self._group = group
        self._threads = threads
        self._stats = stats
        self._clock = clock

    async def call(self, handler: MessageHandler | None, messages: list[MessageView]) -> ConsumeResult:
        """Let the handler have the messages. Whatever it raises means: again later."""
        started = self._clock.monotonic()
        result = await self._call(handler, messages)
        failed_count = len(failed_messages(result, messages))
        self._stats.note(
            messages[0].topic, self._clock.monotonic() - started, len(messages) - failed_count, failed_count
        )
        return result

    async def _call(self, handler: MessageHandler | None, messages: list[MessageView]) -> ConsumeResult:
        if handler is None:
            logger.warning("no handler", extra=self.describe(messages))
            return ConsumeResult.RETRY
        try:
            return await handler.call(messages, self._threads)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the consumer is stopping; otherwise something that the handler waited for was cancelled
            logger.warning("handler was cancelled", extra=self.describe(messages))
        except Exception:
            logger.warning("handler failed", extra=self.describe(messages), exc_info=True)
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
    return [] if result.consumed_count is None else messages[max(0, result.consumed_count) :]
