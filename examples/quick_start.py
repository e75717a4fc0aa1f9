"""Send ten messages and consume them.

    python examples/quick_start.py

The name server is that of `NAMESRV_ADDR`, else localhost:9876 (`make run` starts one). It prints:

    sent 10, all stored: True
    received 10: hello 0 ... hello 9
"""

from __future__ import annotations

import asyncio
import os

from skyrocketmq import Message, MessageView, Producer, PushConsumer, SendStatus

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleQuickStart"
COUNT = 10


async def main() -> None:
    async with Producer("example-quick-start", namesrv=NAMESRV) as producer:
        sends = [producer.send(Message(TOPIC, b"hello %d" % number)) for number in range(COUNT)]
        results = await asyncio.gather(*sends)
    print(f"sent {len(results)}, all stored: {all(result.status is SendStatus.SEND_OK for result in results)}")

    received: list[str] = []
    is_complete = asyncio.Event()
    consumer = PushConsumer("example-quick-start-readers", namesrv=NAMESRV, consume_from="first")

    @consumer.subscribe(TOPIC)
    async def handle(message: MessageView) -> None:
        """Returning means consumed, raising means again later."""
        received.append(message.body.decode())
        if len(received) == COUNT:
            is_complete.set()

    async with consumer:
        await asyncio.wait_for(is_complete.wait(), 20)
    received.sort()
    print(f"received {len(received)}: {received[0]} ... {received[-1]}")


if __name__ == "__main__":
    asyncio.run(main())
