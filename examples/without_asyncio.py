"""The same clients in a program without asyncio: everything is there to block.

    python examples/without_asyncio.py

It prints:

    stored: True
    invoice for order-1
"""

from __future__ import annotations

import os
from queue import Queue

from skyrocketmq import Message, MessageView, SendStatus
from skyrocketmq.blocking import Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleBlocking"


def main() -> None:
    with Producer("example-blocking", namesrv=NAMESRV) as producer:
        result = producer.send(Message(TOPIC, b"order-1", keys=["order-1"]))
        print("stored:", result.status is SendStatus.SEND_OK)

    invoices: Queue[str] = Queue()
    consumer = PushConsumer("example-blocking-readers", namesrv=NAMESRV, consume_from="first")

    @consumer.subscribe(TOPIC)
    def bill(message: MessageView) -> None:
        """Plain functions run in a pool of threads."""
        invoices.put(f"invoice for {message.body.decode()}")

    with consumer:
        print(invoices.get(timeout=20))


if __name__ == "__main__":
    main()
