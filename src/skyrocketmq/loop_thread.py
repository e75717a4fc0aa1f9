"""An event loop in a background thread, for code that blocks.

All blocking clients of a process share one thread, which comes with the first and goes with the last. A process made by
fork has no threads but its own: there, everything begins anew with the next use, and what was the parent's is left
untouched (its sockets and its loop are shared with the parent, who still uses them).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from skyrocketmq.errors import ClientError

__all__ = ["LoopThread", "acquire_loop", "release_loop"]

T = TypeVar("T")


class LoopThread:
    """One loop, running in one thread. uvloop's where there is one."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="skyrocketmq", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.run_forever()
        # Those who still wait for something hear that it will not come.
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop; callable from any thread but the loop's own."""
        self._refuse_own_thread(work)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it. Who is interrupted while waiting cancels it."""
        self._refuse_own_thread(work)
        call = _Call(self._loop, work)
        self._loop.call_soon_threadsafe(call.begin)
        return call.wait()

    def _refuse_own_thread(self, work: Coroutine[Any, Any, T]) -> None:
        if threading.get_ident() == self._thread.ident:
            work.close()
            raise ClientError(
                "a blocking call from an async handler would wait for itself: use the asyncio client there, or a plain "
                "function as handler"
            )

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function on the loop's thread and wait for its result."""

        async def on_loop() -> T:
            return function()

        return self.run(on_loop())

    def post(self, function: Callable[[], object]) -> None:
        """Have a plain function called on the loop's thread, without waiting for it; from any thread, its own too."""
        self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """End the loop and the thread; nobody uses them any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Call(Generic[T]):
    """A coroutine that one thread waits for: a lock is all it takes, where a future has a lock, a condition and lists
    of who waits. One sender in a blocking program waits 100,000 times in a few seconds."""

    __slots__ = ("_is_given_up", "_loop", "_task", "_waiting", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._is_given_up = False
        self._waiting = threading.Lock()
        self._waiting.acquire()

    def begin(self) -> None:
        """On the loop."""
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._done)
        if self._is_given_up:
            self._task.cancel()

    def _done(self, task: asyncio.Task[T]) -> None:
        if self._is_given_up and not task.cancelled():
            task.exception()  # looked at: nobody else will
        self._waiting.release()

    def wait(self) -> T:
        """In the thread that asked."""
        try:
            self._waiting.acquire()
        except BaseException:
            self._loop.call_soon_threadsafe(self._give_up)
            raise
        assert self._task is not None, "it was begun, for it has ended"
        try:
            return self._task.result()
        except asyncio.CancelledError:
            raise concurrent.futures.CancelledError from None

    def _give_up(self) -> None:
        self._is_given_up = True
        if self._task is not None:
            self._task.cancel()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _Shared:
    """The thread of this process, if it has one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: LoopThread | None = None
        self.user_count = 0


_shared = _Shared()
_of_parents: list[_Shared] = []  # never touched again, and kept: to delete a loop would close what the parent uses


def acquire_loop() -> LoopThread:
    """The thread of this process; to be given back with `release_loop`."""
    with _shared.lock:
        if _shared.thread is None:
            _shared.thread = LoopThread()
        _shared.user_count += 1
        return _shared.thread


def release_loop(thread: LoopThread) -> None:
    """One user less; the last one ends the thread. Giving back a parent's thread does nothing."""
    with _shared.lock:
        if thread is not _shared.thread:
            return
        _shared.user_count -= 1
        if _shared.user_count:
            return
        _shared.thread = None
    thread.stop()


def _forget_after_fork() -> None:
    global _shared
    _of_parents.append(_shared)
    _shared = _Shared()


if hasattr(os, "register_at_fork"):  # not on Windows, which knows no fork
    os.register_at_fork(after_in_child=_forget_after_fork)
