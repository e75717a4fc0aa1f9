"""Messages of one order stay in order: they go to one queue, and a queue is consumed one message after the other.

    python examples/ordered.py

It prints:

    order-1: created, paid, shipped
    order-2: created, paid, shipped
    order-3: created, paid, shipped
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict

from skyrocketmq import Message, MessageView, Producer, PushConsumer
from skyrocketmq.client import select_by_hash

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleOrdered"
ORDERS = ("order-1", "order-2", "order-3")
STEPS = ("created", "paid", "shipped")


async def main() -> None:
    async with Producer("example-ordered", namesrv=NAMESRV) as producer:
        for step in STEPS:  # the orders' steps are mixed, but each order's own steps follow each other
            for order in ORDERS:
                message = Message(TOPIC, step.encode(), keys=[order])
                await producer.send(message, selector=select_by_hash, arg=order)

    seen: defaultdict[str, list[str]] = defaultdict(list)
    is_complete = asyncio.Event()
    consumer = PushConsumer("example-ordered-readers", namesrv=NAMESRV, consume_from="first", orderly=True)

    @consumer.subscribe(TOPIC)
    async def follow(message: MessageView) -> None:
        """Raising here would bring the same message again before any later one of its queue."""
        seen[message.keys[0]].append(message.body.decode())
        if sum(map(len, seen.values())) == len(ORDERS) * len(STEPS):
            is_complete.set()

    async with consumer:
        await asyncio.wait_for(is_complete.wait(), 20)
    for order in ORDERS:
        print(f"{order}: {', '.join(seen[order])}")


if __name__ == "__main__":
    asyncio.run(main())
