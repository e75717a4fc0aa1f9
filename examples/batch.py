"""Many small messages in one request; and a handler that takes several at once.

    python examples/batch.py

It prints:

    stored together: 100 messages in one queue
    handled: 100 messages, up to 32 at a time: True
"""

from __future__ import annotations

import asyncio
import os

from skyrocketmq import Message, MessageView, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleBatch"
COUNT = 100


async def main() -> None:
    async with Producer("example-batch", namesrv=NAMESRV) as producer:
        result = await producer.send_batch([Message(TOPIC, b"reading %d" % number) for number in range(COUNT)])
        print(f"stored together: {len(result.msg_id.split(','))} messages in one queue")

    sizes: list[int] = []
    is_complete = asyncio.Event()
    consumer = PushConsumer("example-batch-readers", namesrv=NAMESRV, consume_from="first")

    @consumer.subscribe(TOPIC, batch=32)
    async def store_readings(messages: list[MessageView]) -> None:
        """All of the list are consumed when this returns; `ConsumeResult.consumed(n)` would be the first n only."""
        sizes.append(len(messages))
        if sum(sizes) == COUNT:
            is_complete.set()

    async with consumer:
        await asyncio.wait_for(is_complete.wait(), 20)
    print(f"handled: {sum(sizes)} messages, up to 32 at a time: {max(sizes) <= 32}")


if __name__ == "__main__":
    asyncio.run(main())
