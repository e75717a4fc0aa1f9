"""One client of `peer_clients` as a program of its own.

    python -m benchmarks.peer_load fill CLIENT ADDRESS TOPIC COUNT
    python -m benchmarks.peer_load produce|consume CLIENT ADDRESS TOPIC COUNT WARM_UP SECONDS

`fill` makes a topic and puts messages into it. The others print what `client_load` prints. COUNT is how many messages
are there to be consumed.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from itertools import count

import uvloop

from benchmarks.client_load import now_ns, report
from benchmarks.peer_clients import CLIENTS, Client, Tally

BODY_BYTES = 1024
POLL_S = 0.01


def main(kind: str, client: Client, message_count: int, warm_up_s: float = 0.0, seconds: float = 0.0) -> None:
    body = random.Random(1).randbytes(BODY_BYTES)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if kind == "fill":
            runner.run(fill(client, body, message_count))
        elif kind == "produce":
            runner.run(produce(client, body, warm_up_s, seconds))
        else:
            runner.run(consume(client, message_count, warm_up_s, seconds))


async def fill(client: Client, body: bytes, message_count: int) -> None:
    await client.create()
    if message_count:
        tally = Tally()
        async with asyncio.TaskGroup() as work:
            work.create_task(client.produce(body, tally))
            while tally.sent < message_count:  # noqa: ASYNC110 - a look now and then costs the producer nothing
                await asyncio.sleep(POLL_S)
            tally.is_over = True


async def produce(client: Client, body: bytes, warm_up_s: float, seconds: float) -> None:
    tally = Tally()
    async with asyncio.TaskGroup() as work:
        work.create_task(client.produce(body, tally))
        await asyncio.sleep(warm_up_s)
        print("measuring", flush=True)
        sent_before, start = tally.sent, now_ns()
        await asyncio.sleep(seconds)
        report(tally.sent - sent_before, 0, now_ns() - start, 0, 0)
        tally.is_over = True


async def consume(client: Client, message_count: int, warm_up_s: float, seconds: float) -> None:
    """The topic again and again, each time for another group, from its first message on."""
    groups = (f"readers-{os.getpid()}-{number}" for number in count())
    end = now_ns() + warm_up_s * 1e9
    while now_ns() < end:
        await client.consume(next(groups), message_count)
    print("measuring", flush=True)
    taken_ns = consumed = 0
    while taken_ns < seconds * 1e9:
        taken_ns += await client.consume(next(groups), message_count)
        consumed += message_count
    report(consumed, 0, taken_ns, 0, 0)


if __name__ == "__main__":
    kind_, name, address, topic, number_, *times = sys.argv[1:]
    main(kind_, CLIENTS[name](address, topic), int(number_), *(float(each) for each in times))
