"""Handle each message once: the same order sent twice is charged once.

    python examples/once.py

It prints:

    charged order-1
    orders received: 2, charged: 1
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from skyrocketmq import Message, MessageView, Producer, PushConsumer
from skyrocketmq.idempotence import SqliteIds, once

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleOnce"


async def main(directory: Path) -> None:
    charged: list[str] = []
    received: asyncio.Queue[str] = asyncio.Queue()
    consumer = PushConsumer("example-once-readers", namesrv=NAMESRV, consume_from="first", concurrency=1)

    @once(SqliteIds(directory / "charged.db"), key=lambda message: message.keys[0], scope="charge")
    async def charge(message: MessageView) -> None:
        charged.append(message.keys[0])
        print(f"charged {message.keys[0]}")

    @consumer.subscribe(TOPIC)
    async def receive(message: MessageView) -> None:
        await charge(message)
        await received.put(message.keys[0])

    async with consumer, Producer("example-once", namesrv=NAMESRV) as producer:
        for _ in range(2):  # a user who clicked twice
            await producer.send(Message(TOPIC, b"250 EUR", keys=["order-1"]))
        count = len([await asyncio.wait_for(received.get(), 20) for _ in range(2)])
    print(f"orders received: {count}, charged: {len(charged)}")


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
