"""Ask, and get an answer: a request goes to a topic, some consumer replies, and the reply comes back to who asked.

    python examples/request_reply.py

It prints:

    apples cost 2.49
    pears cost 3.10
"""

from __future__ import annotations

import asyncio
import os

from skyrocketmq import Message, MessageView, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExamplePrices"
PRICES = {b"apples": b"2.49", b"pears": b"3.10"}


async def main() -> None:
    clerk = Producer("example-prices", namesrv=NAMESRV)
    consumer = PushConsumer("example-prices-clerks", namesrv=NAMESRV, consume_from="first")

    @consumer.subscribe(TOPIC)
    async def tell(question: MessageView) -> None:
        await clerk.reply(question, PRICES[question.body])

    async with clerk, consumer, Producer("example-prices-shoppers", namesrv=NAMESRV) as shopper:
        questions = [shopper.request(Message(TOPIC, fruit), timeout_s=20) for fruit in PRICES]
        replies = await asyncio.gather(*questions)
    for fruit, reply in zip(PRICES, replies, strict=True):
        print(f"{fruit.decode()} cost {reply.body.decode()}")


if __name__ == "__main__":
    asyncio.run(main())
