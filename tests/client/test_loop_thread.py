"""The loop in a background thread: results, errors and interruptions reach the thread that waits."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from skyrocketmq.errors import ClientError
from skyrocketmq.loop_thread import LoopThread, acquire_loop, release_loop


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    acquired = acquire_loop()
    yield acquired
    release_loop(acquired)


async def answer(value: str, *, after_s: float = 0.0) -> str:
    await asyncio.sleep(after_s)
    return value


async def fail() -> None:
    raise ValueError("as the test wants it")


def test_a_result_comes_to_the_thread_that_waits_for_it(thread: LoopThread) -> None:
    assert thread.run(answer("now")) == "now"
    assert thread.run(answer("later", after_s=0.01)) == "later"
    assert thread.call(threading.get_ident) != threading.get_ident()


def test_an_error_shows_where_it_was_raised(thread: LoopThread) -> None:
    with pytest.raises(ValueError, match="as the test wants it") as caught:
        thread.run(fail())
    assert [entry.name for entry in caught.traceback][-1] == "fail"


def test_threads_wait_for_their_own_results(thread: LoopThread) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        texts = [str(number) for number in range(200)]
        assert list(pool.map(lambda text: thread.run(answer(text, after_s=0.001)), texts)) == texts


def test_who_is_interrupted_while_waiting_cancels_the_work(thread: LoopThread) -> None:
    ended: list[str] = []

    async def wait_long() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    timer = threading.Timer(0.1, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.run(wait_long())
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 30
    assert thread.run(answer("the loop goes on")) == "the loop goes on"
    assert ended == ["cancelled"]


def test_work_that_is_cut_off_by_the_end_of_the_loop_is_cancelled_for_its_thread() -> None:
    thread = acquire_loop()
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            thread.run(answer("never", after_s=60))
        except BaseException as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    release_loop(thread)
    waiting.join(20)
    assert [type(error) for error in outcome] == [concurrent.futures.CancelledError]


def test_a_blocking_call_on_the_loop_is_refused(thread: LoopThread) -> None:
    async def call_itself() -> None:
        thread.run(answer("never"))

    with pytest.raises(ClientError, match="would wait for itself"):
        thread.run(call_itself())
