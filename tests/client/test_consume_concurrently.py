"""The workers of a concurrent consumer: who is woken for what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from skyrocketmq.client.consume_concurrently import ConcurrentConsumption
from skyrocketmq.client.consume_stats import ConsumeStats
from skyrocketmq.client.deliveries import Deliveries
from skyrocketmq.client.handler_calls import HandlerCalls
from skyrocketmq.client.handler_threads import HandlerThreads
from skyrocketmq.client.handlers import handler_of
from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.moments import Moment
from skyrocketmq.client.offset_store import RemoteOffsets
from skyrocketmq.model import MessageView
from skyrocketmq.ports import SystemClock
from tests.client.messages import view
from tests.client.test_offset_store import Brokers
from tests.waiting import until

Handle = Callable[[MessageView], object]


@asynccontextmanager
async def workers(
    count: int, handle: Handle
) -> AsyncIterator[tuple[Callable[[int], HeldQueue], list[asyncio.Task[None]]]]:
    """So many workers, a way to give them messages, and their tasks."""
    clock = SystemClock()
    calls = HandlerCalls("readers", threads=HandlerThreads(1, name="readers"), stats=ConsumeStats(), clock=clock)
    calls.watched = asyncio.create_task(asyncio.sleep(60))
    handler = handler_of(handle, batch=None)
    tasks: list[asyncio.Task[None]] = []
    consumption = ConcurrentConsumption(
        "readers",
        concurrency=count,
        deliveries=Deliveries(lambda topic: handler, namespace=""),
        handlers=calls,
        offsets=RemoteOffsets(Brokers()),
        send_back=None,
        watch=tasks.append,
        clock=clock,
    )

    def submit(message_count: int) -> HeldQueue:
        messages = [view(number) for number in range(message_count)]
        held = HeldQueue(messages[0].queue, next_offset=0, now=Moment.now(clock))
        held.cache.put(messages)
        consumption.submit(held, messages)
        return held

    consumption.start()
    await asyncio.sleep(0)
    try:
        yield submit, tasks
    finally:
        await consumption.stop(grace_s=1)
        calls.watched.cancel()


async def test_handlers_that_never_wait_are_all_called_by_one_worker() -> None:
    callers: list[asyncio.Task[object] | None] = []

    async def handle(message: MessageView) -> None:
        callers.append(asyncio.current_task())

    async with workers(20, handle) as (submit, _):
        held = submit(30)
        await until(lambda: not held.cache.count)
    assert len(callers) == 30
    assert len(set(callers)) == 1


async def test_handlers_that_wait_run_at_a_time_as_many_as_there_are_workers() -> None:
    running = 0
    released = asyncio.Event()

    async def handle(message: MessageView) -> None:
        nonlocal running
        running += 1
        await released.wait()

    async with workers(5, handle) as (submit, _):
        held = submit(30)
        await until(lambda: running == 5)
        released.set()
        await until(lambda: not held.cache.count)
    assert running == 30


async def test_a_call_is_not_lost_with_the_worker_that_was_woken_for_it() -> None:
    handled: list[int] = []

    async def handle(message: MessageView) -> None:
        handled.append(message.queue_offset)

    async with workers(2, handle) as (submit, tasks):
        held = submit(1)
        for task in tasks:
            task.cancel()
        await until(lambda: not held.cache.count)
        held = submit(3)
        await until(lambda: not held.cache.count)
    assert handled == [0, 0, 1, 2]
