"""A web service that sends what it is given and shows what came of it.

    uvicorn examples.fastapi_service:app          (pip install fastapi uvicorn)

    curl -X POST localhost:8000/orders/order-1    -> {"stored": true}
    curl localhost:8000/orders/order-1            -> {"state": "billed"}

The producer and the consumer live as long as the application does: they are opened once, in its lifespan, and every
request uses the same connections.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

from skyrocketmq import Message, MessageView, Producer, PushConsumer, SendStatus

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleWebOrders"

producer = Producer("example-web", namesrv=NAMESRV)
consumer = PushConsumer("example-web-billing", namesrv=NAMESRV, consume_from="first")
billed: set[str] = set()


@consumer.subscribe(TOPIC)
async def bill(message: MessageView) -> None:
    billed.add(message.body.decode())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with producer, consumer:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}")
async def take_order(order: str) -> dict[str, bool]:
    result = await producer.send(Message(TOPIC, order.encode(), keys=[order]))
    return {"stored": result.status is SendStatus.SEND_OK}


@app.get("/orders/{order}")
async def show_order(order: str) -> dict[str, str]:
    if order not in billed:
        raise HTTPException(404, f"{order} was not billed yet")
    return {"state": "billed"}
