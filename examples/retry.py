"""A handler that fails: the message comes again, later each time, and in the end lies among the dead letters.

    python examples/retry.py

It prints:

    attempt 1
    attempt 2
    dead letter of ExampleRetry: unpayable
"""

from __future__ import annotations

import asyncio
import os
from itertools import count

from skyrocketmq import ConsumeResult, LitePullConsumer, Message, MessageView, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleRetry"
GROUP = "example-retry-readers"


async def main() -> None:
    attempts = count(1)
    has_given_up = asyncio.Event()
    consumer = PushConsumer(GROUP, namesrv=NAMESRV, consume_from="first", retry_count_max=1)

    @consumer.subscribe(TOPIC)
    async def pay(message: MessageView) -> ConsumeResult:
        attempt = next(attempts)
        print(f"attempt {attempt}")
        if attempt == 2:
            has_given_up.set()
        return ConsumeResult.retry(delay_level=1)  # a second; raising leaves the pause to the broker

    async with consumer, Producer("example-retry", namesrv=NAMESRV) as producer:
        await producer.send(Message(TOPIC, b"unpayable"))
        await asyncio.wait_for(has_given_up.wait(), 30)

    async with LitePullConsumer("example-retry-undertakers", namesrv=NAMESRV, consume_from="first") as dead_letters:
        dead_letters.subscribe(f"%DLQ%{GROUP}")
        async for message in dead_letters:
            print(f"dead letter of {message.properties['RETRY_TOPIC']}: {message.body.decode()}")
            break
        await dead_letters.commit()


if __name__ == "__main__":
    asyncio.run(main())
