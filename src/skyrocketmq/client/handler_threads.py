"""The threads in which plain handlers run.

Hot: a thread takes the next job itself and leaves the outcome in a list; the loop is woken once for many outcomes, not
once for each. To hand every message to a thread and wait for it there costs ten times as much, nearly all of it in
switching between threads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from skyrocketmq.client.handler_scope import HandlerScope
from skyrocketmq.ports import Clock, LocalMachine, Machine

__all__ = ["HandlerThreads"]

Done = Callable[[Any, BaseException | None], object]
_Job = tuple[Callable[[], object], Done]
_Outcome = tuple[Done, object, BaseException | None]


class HandlerThreads:
    """Up to so many threads, started as they are needed. Everything but the jobs themselves runs on the loop."""

    def __init__(self, count_max: int, *, name: str, machine: Machine | None = None) -> None:
        self.scope = HandlerScope()
        self._count_max = count_max
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._outcomes: deque[_Outcome] = deque()
        self._is_loop_told = False
        self._machine = machine or LocalMachine()
        self._thread_count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle = asyncio.Event()
        self._job_count = 0  # submitted, and its outcome not delivered

    def submit(self, job: Callable[[], object], done: Done) -> None:
        """Have `job` called in a thread, and then `done` on the loop, with its result or its exception."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._job_count += 1
        self._jobs.put((job, done))
        if self._thread_count < min(self._count_max, self._job_count):
            if self._machine.start_thread(self._work, name=f"consume-{self._name}-{self._thread_count}"):
                self._thread_count += 1
            else:
                self._loop.call_soon(self._work_here)

    async def run(self, function: Callable[[Any], object], argument: object) -> object:
        """Call a function in a thread and wait for its result."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def done(result: object, error: BaseException | None) -> None:
            if future.done():
                return  # nobody waits any more
            if error is None:
                future.set_result(result)
            elif isinstance(error, StopIteration):
                future.set_exception(RuntimeError(f"the handler raised {error!r}"))  # no future can carry that one
            else:
                future.set_exception(error)

        self.submit(lambda: function(argument), done)
        return await future

    def _work(self) -> None:
        jobs, outcomes, loop = self._jobs, self._outcomes, self._loop
        assert loop is not None, "threads are started by the loop"
        self.scope.enter()
        while (taken := jobs.get()) is not None:
            outcomes.append(_outcome_of(*taken))
            del taken  # nothing is kept while this thread waits
            if not self._is_loop_told:
                self._is_loop_told = True
                try:
                    loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    return  # the loop is closed: this thread was given up

    def _work_here(self) -> None:
        """Do one job on the loop: for machines without threads."""
        try:
            taken = self._jobs.get_nowait()
        except Empty:
            return  # dropped by `close`
        if taken is not None:
            self.scope.enter()  # for this callback, which has a context of its own
            self._outcomes.append(_outcome_of(*taken))
            self._deliver()

    def _deliver(self) -> None:
        # First the flag, then the list: a thread that adds to it from now on wakes the loop again.
        self._is_loop_told = False
        outcomes = self._outcomes
        while outcomes:
            done, result, error = outcomes.popleft()
            self._job_count -= 1
            done(result, error)
        if not self._job_count:
            self._idle.set()

    async def close(self, *, clock: Clock, grace_s: float) -> int:
        """Drop the jobs that nobody has begun, wait for the others; how many did not end within `grace_s`.

        A thread cannot be ended from outside: one that is still busy then ends with its job. Closing twice is harmless.
        """
        if not self._job_count and not self._thread_count:
            return 0
        try:
            while True:
                self._jobs.get_nowait()
                self._job_count -= 1
        except Empty:
            pass
        if self._job_count:
            self._idle.clear()
            try:
                async with clock.timeout(grace_s):
                    while self._job_count:
                        self._idle.clear()
                        await self._idle.wait()
            except TimeoutError:
                pass
        for _ in range(self._thread_count):
            self._jobs.put(None)
        self._thread_count = 0
        return self._job_count


def _outcome_of(job: Callable[[], object], done: Done) -> _Outcome:
    try:
        return done, job(), None
    except BaseException as raised:
        return done, None, raised
