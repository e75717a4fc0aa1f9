"""Reading at one's own pace: poll, go back, and commit when the work is done.

    python examples/lite_pull.py

It prints:

    polled: 5 readings
    again from the beginning: 5 readings
"""

from __future__ import annotations

import asyncio
import os

from skyrocketmq import LitePullConsumer, Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleLitePull"
COUNT = 5


async def poll(consumer: LitePullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    async with asyncio.timeout(20):
        while len(bodies) < count:
            bodies += [message.body for message in await consumer.poll()]
    return bodies


async def main() -> None:
    async with Producer("example-lite-pull", namesrv=NAMESRV) as producer:
        queue = (await producer.queues(TOPIC))[0]
        for number in range(COUNT):
            sent = await producer.send(Message(TOPIC, b"reading %d" % number), queue=queue)
    first_offset = sent.queue_offset - COUNT + 1

    async with LitePullConsumer("example-lite-pull-readers", namesrv=NAMESRV, auto_commit=False) as consumer:
        consumer.assign([queue])
        await consumer.seek(queue, first_offset)
        print(f"polled: {len(await poll(consumer, COUNT))} readings")
        await consumer.seek(queue, first_offset)
        print(f"again from the beginning: {len(await poll(consumer, COUNT))} readings")
        await consumer.commit()


if __name__ == "__main__":
    asyncio.run(main())
