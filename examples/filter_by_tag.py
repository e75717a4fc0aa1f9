"""A consumer that asks for two of three tags.

    python examples/filter_by_tag.py

It prints:

    paid: order-2
    refunded: order-3
"""

from __future__ import annotations

import asyncio
import os

from skyrocketmq import Message, MessageView, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleTags"


async def main() -> None:
    async with Producer("example-tags", namesrv=NAMESRV) as producer:
        for tag, order in (("created", b"order-1"), ("paid", b"order-2"), ("refunded", b"order-3")):
            await producer.send(Message(TOPIC, order, tags=tag))

    seen: list[str] = []
    is_complete = asyncio.Event()
    consumer = PushConsumer("example-tags-readers", namesrv=NAMESRV, consume_from="first")

    @consumer.subscribe(TOPIC, "paid || refunded")
    async def book(message: MessageView) -> None:
        seen.append(f"{message.tags}: {message.body.decode()}")
        if len(seen) == 2:
            is_complete.set()

    async with consumer:
        await asyncio.wait_for(is_complete.wait(), 20)
    print(*sorted(seen), sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
