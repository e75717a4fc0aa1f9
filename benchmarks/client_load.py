"""Our client as a user has it: the same program as `ClientLoad.java`, which has Apache's client.

    python -m benchmarks.client_load latency|blocking|flight|consume NAMESRV TOPIC WARM_UP SECONDS BODY_BYTES COUNT

Prints `measuring` when the warm-up is over, and then one line: `count failed nanoseconds p50 p99`, the last two in
nanoseconds, 0 where no latency is measured. COUNT is how many messages are in flight, or are there to be consumed.
`latency` awaits each message, `blocking` sends them with the blocking producer.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count

import uvloop

from skyrocketmq import Message, Producer, PushConsumer, blocking
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageView

GROUP = "benchmark-python"
now_ns = time.perf_counter_ns


def main(kind: str, namesrv: str, topic: str, warm_up_s: float, seconds: float, body_bytes: int, number: int) -> None:
    warm_up_ns, measured_ns = round(warm_up_s * 1e9), round(seconds * 1e9)
    body = random.Random(1).randbytes(body_bytes)
    if kind == "blocking":
        send_blocking(namesrv, topic, body, warm_up_ns, measured_ns)
        return
    work: dict[str, Callable[[], Awaitable[None]]] = {
        "latency": lambda: send_one_by_one(namesrv, topic, body, warm_up_ns, measured_ns),
        "flight": lambda: send_many(namesrv, topic, body, warm_up_ns, measured_ns, number),
        "consume": lambda: consume(namesrv, topic, warm_up_ns, measured_ns, number),
    }

    async def run() -> None:
        await work[kind]()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def send_one_by_one(namesrv: str, topic: str, body: bytes, warm_up_ns: int, measured_ns: int) -> None:
    async with Producer(f"{GROUP}-producer", namesrv=namesrv) as producer:
        end = now_ns() + warm_up_ns
        while now_ns() < end:
            await producer.send(Message(topic, body, tags="TagA"))
        print("measuring", flush=True)
        latencies: list[int] = []
        start = now = now_ns()
        while now - start < measured_ns:
            before = now
            await producer.send(Message(topic, body, tags="TagA"))
            now = now_ns()
            latencies.append(now - before)
    report_latencies(latencies, now - start)


def send_blocking(namesrv: str, topic: str, body: bytes, warm_up_ns: int, measured_ns: int) -> None:
    with blocking.Producer(f"{GROUP}-producer", namesrv=namesrv) as producer:
        end = now_ns() + warm_up_ns
        while now_ns() < end:
            producer.send(Message(topic, body, tags="TagA"))
        print("measuring", flush=True)
        latencies: list[int] = []
        start = now = now_ns()
        while now - start < measured_ns:
            before = now
            producer.send(Message(topic, body, tags="TagA"))
            now = now_ns()
            latencies.append(now - before)
    report_latencies(latencies, now - start)


async def send_many(
    namesrv: str, topic: str, body: bytes, warm_up_ns: int, measured_ns: int, in_flight_count: int
) -> None:
    sent = failed = 0
    is_running = True

    async def send_on_and_on(producer: Producer) -> None:
        nonlocal sent, failed
        while is_running:
            try:
                await producer.send(Message(topic, body, tags="TagA"))
                sent += 1
            except MQError:
                failed += 1

    async with Producer(f"{GROUP}-producer", namesrv=namesrv) as producer:
        senders = [asyncio.create_task(send_on_and_on(producer)) for _ in range(in_flight_count)]
        await asyncio.sleep(warm_up_ns / 1e9)
        print("measuring", flush=True)
        sent_before, failed_before, start = sent, failed, now_ns()
        await asyncio.sleep(measured_ns / 1e9)
        report(sent - sent_before, failed - failed_before, now_ns() - start, 0, 0)
        is_running = False
        await asyncio.gather(*senders)


async def consume(namesrv: str, topic: str, warm_up_ns: int, measured_ns: int, message_count: int) -> None:
    """The whole topic again and again, each time for another group, from its first message to its last."""
    passes = count(1)
    end = now_ns() + warm_up_ns
    while now_ns() < end:
        await consume_all(namesrv, topic, message_count, next(passes))
    print("measuring", flush=True)
    taken_ns = consumed = 0
    while taken_ns < measured_ns:
        taken_ns += await consume_all(namesrv, topic, message_count, next(passes))
        consumed += message_count
    report(consumed, 0, taken_ns, 0, 0)


async def consume_all(namesrv: str, topic: str, message_count: int, number: int) -> int:
    first = last = 0
    left = message_count
    done = asyncio.Event()

    async def handle(message: MessageView) -> None:
        nonlocal first, last, left
        if not first:
            first = now_ns()
        left -= 1
        if not left:
            last = now_ns()
            done.set()

    consumer = PushConsumer(f"{GROUP}-{os.getpid()}-{number}", namesrv=namesrv, consume_from="first")
    consumer.subscribe(topic, "*", handle)
    async with consumer:
        await done.wait()
    return last - first


def report_latencies(latencies: list[int], taken_ns: int) -> None:
    latencies.sort()
    report(len(latencies), 0, taken_ns, latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100])


def report(sent: int, failed: int, taken_ns: int, p50_ns: int, p99_ns: int) -> None:
    print(sent, failed, taken_ns, p50_ns, p99_ns, flush=True)


if __name__ == "__main__":
    kind_, namesrv_, topic_, *numbers = sys.argv[1:]
    main(kind_, namesrv_, topic_, float(numbers[0]), float(numbers[1]), int(numbers[2]), int(numbers[3]))
