from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.handler_threads import HandlerThreads
from skyrocketmq.client.handlers import handler_of
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message, MessageView
from skyrocketmq.ports import SystemClock
from skyrocketmq.testing.simulation.machine import SimMachine
from tests.client.cluster import Cluster, until
from tests.client.messages import view
from tests.client.test_push_consumer import numbered, send_all


class AsyncCallable:
    async def __call__(self, message: MessageView) -> ConsumeResult:
        return ConsumeResult.RETRY


async def plain_async(message: MessageView) -> ConsumeResult:
    return ConsumeResult.RETRY


def plain(message: MessageView) -> ConsumeResult:
    return ConsumeResult.RETRY


def generator(message: MessageView) -> Iterator[None]:
    yield


async def async_generator(message: MessageView) -> AsyncIterator[None]:
    yield


class GeneratorCallable:
    def __call__(self, message: MessageView) -> Iterator[None]:
        yield


class TestHandlers:
    @pytest.mark.parametrize(
        ("function", "is_async"),
        [
            (plain_async, True),
            (AsyncCallable(), True),
            (functools.partial(plain_async), True),
            (plain, False),
            (lambda message: plain_async(message), False),
        ],
    )
    async def test_any_kind_of_function_is_called_in_its_way(
        self, function: Callable[[Any], object | Awaitable[object]], is_async: bool
    ) -> None:
        threads = HandlerThreads(1, name="test")
        handler = handler_of(function, batch=None)
        assert handler.is_async is is_async
        assert await handler.call([view(0)], threads) is ConsumeResult.RETRY
        await threads.close(clock=SystemClock(), grace_s=1)

    @pytest.mark.parametrize("returned", [None, True, False, "text", ConsumeResult.SUCCESS])
    async def test_returning_anything_means_consumed(self, returned: object) -> None:
        threads = HandlerThreads(1, name="test")
        handler = handler_of(lambda message: returned, batch=None)
        assert await handler.call([view(0)], threads) is ConsumeResult.SUCCESS
        await threads.close(clock=SystemClock(), grace_s=1)

    @pytest.mark.parametrize("returned", [ConsumeResult.retry, Verdict.RETRY, (number for number in range(3))])
    async def test_returning_what_can_only_be_a_slip_is_a_failure(self, returned: object) -> None:
        threads = HandlerThreads(1, name="test")
        handler = handler_of(lambda message: returned, batch=None)
        with pytest.raises(IllegalArgument, match="the handler returned"):
            await handler.call([view(0)], threads)
        await threads.close(clock=SystemClock(), grace_s=1)

    @pytest.mark.parametrize(
        "function", [generator, async_generator, functools.partial(generator), GeneratorCallable()]
    )
    def test_a_handler_with_yield_in_it_is_refused(self, function: Callable[[Any], object]) -> None:
        with pytest.raises(IllegalArgument, match="yield"):
            handler_of(function, batch=None)

    @pytest.mark.parametrize("count", [1.5, -1, "2"])
    def test_a_part_of_a_list_is_a_whole_number_of_messages(self, count: int) -> None:
        with pytest.raises(IllegalArgument, match="consumed"):
            ConsumeResult.consumed(count)

    @pytest.mark.parametrize(("function", "batch"), [("no function", None), (plain, 0), (plain, 1025)])
    def test_what_cannot_be_called_is_refused(self, function: Callable[[Any], object], batch: int | None) -> None:
        with pytest.raises(IllegalArgument):
            handler_of(function, batch=batch)

    def test_a_delay_level_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(IllegalArgument, match="delay level 19"):
            ConsumeResult.retry(delay_level=19)


class TestThreads:
    async def test_there_are_no_more_threads_than_jobs_or_than_allowed(self) -> None:
        threads = HandlerThreads(3, name="few")
        names: set[str] = set()

        def job(number: object) -> object:
            names.add(threading.current_thread().name)
            time.sleep(0.01)
            return number

        assert await threads.run(job, 7) == 7
        assert names == {"consume-few-0"}
        assert await asyncio.gather(*(threads.run(job, number) for number in range(9))) == list(range(9))
        assert len(names) == 3
        assert await threads.close(clock=SystemClock(), grace_s=1) == 0

    async def test_an_exception_comes_to_whoever_waits(self) -> None:
        threads = HandlerThreads(1, name="test")

        def fail(error: Any) -> None:
            raise error

        with pytest.raises(ValueError, match="cannot"):
            await threads.run(fail, ValueError("cannot"))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(fail, StopIteration())
        await threads.close(clock=SystemClock(), grace_s=1)

    async def test_closing_waits_for_jobs_under_way_and_drops_the_others(self) -> None:
        threads = HandlerThreads(1, name="test")
        released = threading.Event()
        done: list[object] = []
        threads.submit(lambda: released.wait(5), lambda result, error: done.append(result))
        threads.submit(lambda: "never", lambda result, error: done.append(result))
        await asyncio.sleep(0.02)
        assert await threads.close(clock=SystemClock(), grace_s=0.01) == 1
        released.set()
        await until(lambda: done)
        assert done == [True]


class TestPlainHandlersOfAConsumer:
    async def test_failures_come_again_and_successes_are_committed(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        seen: list[bytes] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)

        @consumer.subscribe("T")
        def read(message: MessageView) -> ConsumeResult | None:
            seen.append(message.body)
            if message.body == b"raise":
                raise ValueError
            return ConsumeResult.retry(delay_level=-1) if message.body == b"retry" else None

        store = cluster.brokers["broker-a"].store
        async with consumer, Producer("senders", namesrv=cluster.namesrv) as producer:
            for body in (b"good", b"retry", b"raise", b"good"):
                await producer.send(Message("T", body))
            await until(lambda: len(seen) == 4)
            await until(lambda: store.max_offset("%DLQ%readers", 0) == 1)
            await until(lambda: store.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1)
        assert cluster.stored_offset("readers", "T", 0) == 4

    async def test_a_method_that_was_not_called_is_a_failure_not_a_success(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        seen: list[int] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True, pause_s=0.01)

        @consumer.subscribe("T")
        def read(message: MessageView) -> object:
            seen.append(message.reconsume_times)
            return ConsumeResult.retry if len(seen) < 3 else None

        async with consumer:
            await send_all(cluster, [b"x"])
            await until(lambda: len(seen) == 3)
        assert seen == [0, 1, 2]

    async def test_what_is_being_handled_is_finished_at_the_end(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        entered, released = threading.Event(), threading.Event()
        finished: list[bytes] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, concurrency=1)

        @consumer.subscribe("T")
        def read(message: MessageView) -> None:
            entered.set()
            released.wait(5)
            finished.append(message.body)

        await send_all(cluster, numbered(10))
        await consumer.start()
        await until(entered.is_set)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        released.set()
        await closing
        assert len(finished) == 1
        assert cluster.stored_offset("readers", "T", 0) == 1

    async def test_order_holds_for_them_too(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        seen: list[bytes] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)

        @consumer.subscribe("T", batch=4)
        def read(messages: list[MessageView]) -> None:
            seen.extend(message.body for message in messages)

        async with consumer, Producer("senders", namesrv=cluster.namesrv) as producer:
            for body in numbered(30):
                await producer.send(Message("T", body))
            await until(lambda: len(seen) == 30)
        assert seen == numbered(30)


async def test_a_machine_without_threads_runs_handlers_on_the_loop() -> None:
    threads = HandlerThreads(2, name="test", machine=SimMachine("10.0.0.1", 1))
    ran_in: list[bool] = []

    def handler(argument: object) -> object:
        ran_in.append(threading.current_thread() is threading.main_thread() and threads.scope.is_entered)
        if argument == "bad":
            raise ValueError(argument)
        return argument

    assert await threads.run(handler, "good") == "good"
    with pytest.raises(ValueError, match="bad"):
        await threads.run(handler, "bad")
    assert ran_in == [True, True]
    assert not threads.scope.is_entered
    assert await threads.close(clock=SystemClock(), grace_s=1) == 0
