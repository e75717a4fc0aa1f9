"""A message that is delivered later: level 1 is a second, level 18 two hours.

    python examples/schedule.py

It prints:

    delivered, and not before its second was over: True
"""

from __future__ import annotations

import asyncio
import os

from skyrocketmq import Message, MessageView, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleSchedule"


async def main() -> None:
    waited_ms: asyncio.Queue[int] = asyncio.Queue()
    consumer = PushConsumer("example-schedule-readers", namesrv=NAMESRV, consume_from="first")

    @consumer.subscribe(TOPIC)
    async def remind(message: MessageView) -> None:
        await waited_ms.put(message.store_timestamp - message.born_timestamp)

    async with consumer, Producer("example-schedule", namesrv=NAMESRV) as producer:
        await producer.send(Message(TOPIC, b"pay the bill", delay_level=1))
        waited = await asyncio.wait_for(waited_ms.get(), 20)
    print("delivered, and not before its second was over:", waited >= 1000)


if __name__ == "__main__":
    asyncio.run(main())
