"""An event loop on virtual time: when nobody has anything to do, it is at once as late as the next timer.

Rule 1: no threads, no sockets, no real time. What would run in a thread runs on the loop, a turn later.
Rule 2: every callback belongs to a process (`PROCESS`, a context variable that tasks hand on to what they start). The
callbacks of a process that is paused wait; those of one that was killed never come: not one line of it runs again, not
even a `finally`.
Rule 3: nothing to do and no timer is a deadlock, and raises; so does a loop that turns for ever without time passing.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar

__all__ = ["PROCESS", "Deadlock", "Process", "SimLoop", "State"]

T = TypeVar("T")

TURNS_WITHOUT_TIME_MAX: Final = 200_000
CLOSE_COUNT_MAX: Final = 100
CANCELLED_TIMERS_MAX: Final = 2_000  # before the timers are sorted out; most time-outs are cancelled


class Deadlock(BaseException):
    """The simulation cannot go on. No `Exception`: nobody in it should handle this."""


class State(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """One life of a program on a node: what runs in `context` belongs to it."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.name = name
        self.state = State.RUNNING
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)
        self.ended: asyncio.Future[None] = loop.create_future()  # by a kill
        self._loop = loop
        self._held: list[Handle] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._task_count_after_pruning = 100

    @property
    def is_running(self) -> bool:
        return self.state is State.RUNNING

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Have something run by this process."""
        return self._loop.create_task(work, name=name, context=self.context)

    async def call(self, work: Coroutine[Any, Any, T], *, name: str) -> T:
        """Wait for something that this process does. Raises `ProcessLookupError` if it dies meanwhile."""
        task = self.start(work, name=name)
        await asyncio.wait((task, self.ended), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ProcessLookupError(f"{self.name} was killed")
        return task.result()

    def pause(self) -> None:
        """As SIGSTOP does: it stands still, time does not."""
        if self.state is State.RUNNING:
            self.state = State.PAUSED

    def resume(self) -> None:
        if self.state is State.PAUSED:
            self.state = State.RUNNING
            held, self._held = self._held, []
            self._loop.take_back(held)

    def kill(self) -> None:
        """As SIGKILL does."""
        if self.state is not State.DEAD:
            self.state = State.DEAD
            self.ended.set_result(None)

    def hold(self, handle: Handle) -> None:
        """Kept also if it is dead: what a callback holds on to must not be torn down in the middle of the run."""
        self._held.append(handle)

    def note(self, task: asyncio.Task[Any]) -> None:
        tasks = self._tasks
        tasks.append(task)
        if len(tasks) > self._task_count_after_pruning * 2:
            tasks[:] = [each for each in tasks if not each.done()]
            self._task_count_after_pruning = max(len(tasks), 100)

    def bury(self) -> None:
        """After the run: close what never ended, quietly."""
        self._held.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own name for just this
                _close(task.get_coro())
        self._tasks.clear()


def _close(coroutine: Any) -> None:
    """End a coroutine, whatever its last words are. One that waits in a `finally` has to be told several times."""
    for _ in range(CLOSE_COUNT_MAX):
        try:
            coroutine.close()
            return
        except BaseException as error:
            if "ignored GeneratorExit" not in str(error):
                return


def _close_generator(generator: Any) -> None:
    closing = generator.aclose()
    try:
        closing.send(None)
        for _ in range(CLOSE_COUNT_MAX):
            closing.throw(GeneratorExit)
    except BaseException:  # it has ended: with StopIteration at best
        pass


PROCESS: ContextVar[Process | None] = ContextVar("skyrocketmq_simulated_process", default=None)


class SimLoop(asyncio.BaseEventLoop):
    """The loop of one simulation. `run` runs it to the end of a coroutine and closes it."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._timer_number = 0
        self._cancelled_count = 0
        self._is_inert = False
        self.processes: list[Process] = []
        self.errors: list[dict[str, Any]] = []  # what nobody handled
        self.set_exception_handler(lambda _, context: self.errors.append(context))
        self.turn_count = 0

    # ------------------------------------------------------------------------------------------------------------ life

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to the end of `main`; then nothing is left, and the loop is closed."""
        with _garbage_kept():
            try:
                return self.run_until_complete(main)
            finally:
                self._bury()

    def _bury(self) -> None:
        """End what never ended, in silence: its last words are meant for a world that is gone."""
        self._is_inert = True
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)  # what starts a task now finds this loop, which takes none
        try:
            for process in self.processes:
                process.state = State.DEAD
                process.bury()
            self.processes.clear()
            for generator in list(self._asyncgens):  # type: ignore[attr-defined]
                _close_generator(generator)
            self._ready.clear()
            self._timers.clear()
            gc.collect()
        finally:
            asyncio._set_running_loop(outer)
            self.close()
            sys.unraisablehook = hook

    def process(self, name: str) -> Process:
        made = Process(self, name)
        self.processes.append(made)
        return made

    # ------------------------------------------------------------------------------------------------------------ time

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        handle = Handle(callback, args, self, context)
        if not self._is_inert:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        handle = TimerHandle(when, callback, args, self, context)
        if not self._is_inert:
            self._timer_number += 1
            handle._scheduled = True  # type: ignore[attr-defined]  # so that the loop hears of its being cancelled
            heappush(self._timers, (when, self._timer_number, handle))
        return handle

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        self._cancelled_count += 1
        if self._cancelled_count > CANCELLED_TIMERS_MAX:
            self._cancelled_count = 0
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapify(self._timers)

    def take_back(self, handles: list[Handle]) -> None:
        """Run what was held."""
        self._ready.extend(handles)

    # ----------------------------------------------------------------------------------------------------------- turns

    def _run_once(self) -> None:
        ready = self._ready
        if ready:
            self.turn_count += 1
            if self.turn_count > TURNS_WITHOUT_TIME_MAX:
                raise Deadlock(f"the loop turned {self.turn_count} times at {self._now:.6f} s")
        else:
            self._advance()
        find_process = PROCESS
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(find_process)  # type: ignore[attr-defined]
            if process is None or process.state is State.RUNNING:
                handle._run()
            else:
                process.hold(handle)

    def _advance(self) -> None:
        """Be as late as the next timer."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers:
            raise Deadlock(f"at {self._now:.6f} s nobody has anything to do, and no timer is set")
        self.turn_count = 0
        now = self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= now:
            self._ready.append(heappop(timers)[2])

    # ----------------------------------------------------------------------------------------------- tasks, no threads

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        if self._is_inert:
            coro.close()
            raise RuntimeError("the simulation is over")
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.note(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(run)
        return future

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        raise OSError(f"{host}: names are looked up by the link")

    async def shutdown_asyncgens(self) -> None:
        """Generators of processes that were killed stay where they are."""

    def _process_events(self, event_list: object) -> None: ...

    def _write_to_self(self) -> None: ...


@contextmanager
def _garbage_kept() -> Generator[None]:
    """A collection in the middle would end coroutines of killed processes, each at its own time in each process."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # what was there before need not be looked at when the run is cleared away
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
