"""The measuring of `bench consumer`: how many messages come, and how old they are."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from skyrocketmq.background import Background
from skyrocketmq.cli.bench_figures import ConsumeFigures
from skyrocketmq.cli.bench_printing import print_regularly

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skyrocketmq.client.consume_result import ConsumeResult
    from skyrocketmq.client.push_consumer import PushConsumer
    from skyrocketmq.model import MessageView
    from skyrocketmq.ports import Clock

__all__ = ["counting_handler", "run_consumer"]


def counting_handler(
    figures: ConsumeFigures, *, fail_rate: float, clock: Clock, chance: random.Random
) -> Callable[[MessageView], Awaitable[ConsumeResult]]:
    """A handler that counts, and has so large a part of the messages come again."""
    from skyrocketmq.client.consume_result import ConsumeResult

    async def handle(message: MessageView) -> ConsumeResult:
        figures.add(born_ms=message.born_timestamp, stored_ms=message.store_timestamp, now_ms=clock.now_ms())
        if fail_rate and chance.random() < fail_rate:
            figures.failed_count += 1
            return ConsumeResult.RETRY
        return ConsumeResult.SUCCESS

    return handle


async def run_consumer(consumer: PushConsumer, figures: ConsumeFigures, stop: asyncio.Event, clock: Clock) -> None:
    """Consume until `stop` is set, printing a line every ten seconds."""
    async with Background(clock) as background, consumer:
        print("Consumer Started.", flush=True)
        print_regularly(figures, background, clock=clock)
        await stop.wait()
