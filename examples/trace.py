"""What became of a message: who sent it, who got it, and how that ended.

    python examples/trace.py

It prints:

    sent by example-trace: success True
    handled by example-trace-readers: started
    handled: success True
"""

from __future__ import annotations

import asyncio
import os

from skyrocketmq import LitePullConsumer, Message, MessageView, Producer, PushConsumer
from skyrocketmq.wire.trace import Pub, SubAfter, SubBefore, decode_trace

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleTrace"


async def send_and_handle() -> str:
    is_handled = asyncio.Event()
    consumer = PushConsumer("example-trace-readers", namesrv=NAMESRV, consume_from="first", trace=True)

    @consumer.subscribe(TOPIC)
    async def handle(message: MessageView) -> None:
        is_handled.set()

    async with consumer, Producer("example-trace", namesrv=NAMESRV, trace=True) as producer:
        sent = await producer.send(Message(TOPIC, b"where did it go?"))
        await asyncio.wait_for(is_handled.wait(), 20)
    return sent.msg_id


async def find_traces(msg_id: str) -> dict[str, str]:
    """Traces are messages of a topic of their own, with the ids they tell of as keys."""
    lines: dict[str, str] = {}
    async with LitePullConsumer("example-trace-detectives", namesrv=NAMESRV, consume_from="first") as traces:
        traces.subscribe("RMQ_SYS_TRACE_TOPIC")
        async for message in traces:
            for record in decode_trace(message.body):
                match record:
                    case Pub(msg_id=found) if found == msg_id:
                        lines["sent"] = f"sent by {record.group}: success {record.is_success}"
                    case SubBefore(msg_id=found) if found == msg_id:
                        lines["before"] = f"handled by {record.group}: started"
                    case SubAfter(msg_id=found) if found == msg_id:
                        lines["then"] = f"handled: success {record.is_success}"
            if len(lines) == 3:
                break
    return lines


async def main() -> None:
    msg_id = await send_and_handle()
    lines = await asyncio.wait_for(find_traces(msg_id), 20)
    for name in ("sent", "before", "then"):
        print(lines[name])


if __name__ == "__main__":
    asyncio.run(main())
