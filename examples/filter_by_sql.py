"""A consumer that asks by an SQL92 expression over properties; the broker picks the messages.

    python examples/filter_by_sql.py

The broker has to allow it: `skyrocketmq up --set enablePropertyFilter=true`. It prints:

    large: 250 EUR from eu
    large: 300 USD from us
"""

from __future__ import annotations

import asyncio
import os

from skyrocketmq import Message, MessageSelector, MessageView, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleSql"
ORDERS = (("250 EUR", "eu", "250"), ("20 EUR", "eu", "20"), ("300 USD", "us", "300"), ("900 JPY", "asia", "900"))


async def main() -> None:
    async with Producer("example-sql", namesrv=NAMESRV) as producer:
        for text, region, amount in ORDERS:
            properties = {"region": region, "amount": amount}
            await producer.send(Message(TOPIC, text.encode(), properties=properties))

    seen: list[str] = []
    is_complete = asyncio.Event()
    consumer = PushConsumer("example-sql-readers", namesrv=NAMESRV, consume_from="first")

    @consumer.subscribe(TOPIC, MessageSelector.by_sql("amount BETWEEN 100 AND 500 AND region IN ('eu', 'us')"))
    async def look(message: MessageView) -> None:
        seen.append(f"large: {message.body.decode()} from {message.properties['region']}")
        if len(seen) == 2:
            is_complete.set()

    async with consumer:
        await asyncio.wait_for(is_complete.wait(), 20)
    print(*sorted(seen), sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
