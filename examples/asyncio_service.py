"""The shape of a service: consume, work, send on, and stop cleanly when the platform asks for it (SIGTERM).

    python examples/asyncio_service.py

What is being worked on when the signal comes is finished, its offset is committed, and the rest goes to the other
members of the group. Until then it prints a line for each order:

    billed order-1
"""

from __future__ import annotations

import asyncio
import os
import signal

from skyrocketmq import Message, MessageView, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")


async def serve() -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)

    producer = Producer("example-service", namesrv=NAMESRV)
    consumer = PushConsumer("example-service-billing", namesrv=NAMESRV, consume_from="first", concurrency=50)

    @consumer.subscribe("ExampleServiceOrders")
    async def bill(message: MessageView) -> None:
        order = message.body.decode()
        await producer.send(Message("ExampleServiceInvoices", f"invoice of {order}".encode(), keys=[order]))
        print(f"billed {order}", flush=True)

    async with producer, consumer:  # left in the opposite order: first nothing comes in, then nothing goes out
        print("ready", flush=True)
        await stopping.wait()
    print("stopped", flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
