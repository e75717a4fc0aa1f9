"""The watch on an event loop: who held it for too long.

A server answers everybody from one thread. While one piece of work runs there, nobody else is served, so no piece may
take longer than `limit_s`. This counts and measures those that do, and logs which request or job it was.

    watch = LoopWatch(clock, limit_s=0.05)
    task = start_task(save(), name="save", watch=watch)

Rule 1: a piece of work is what runs between two waits: a received buffer with its answers, or one step of a task.
Rule 2: work that is in time costs two readings of the clock. What a piece of work was is found out after it was late.
Rule 3: the thread's CPU time is read every `CPU_READ_EVERY_S` at most, because a reading is a system call. So the CPU
        time of a late piece may be too high by that much. Where it is far below the wall time, the thread was waiting:
        for another thread of this process, for a busy machine, or for the disk.
Rule 4: everything here runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, Final, TypeVar

from skyrocketmq.ports import Clock, thread_cpu_s

__all__ = ["LIMIT_S", "Cause", "LoopWatch", "start_task"]

logger = logging.getLogger(__name__)

T = TypeVar("T")
Cause = Callable[[], Mapping[str, object]]  # the fields that say what a piece of work was

LIMIT_S: Final = 0.05
CPU_READ_EVERY_S: Final = 0.01
LOG_EVERY_S: Final = 1.0  # one warning at most in such a time; it says how many it stands for


class LoopWatch:
    """Counts the stalls of one loop since its start."""

    def __init__(self, clock: Clock, *, limit_s: float = LIMIT_S, cpu_s: Callable[[], float] = thread_cpu_s) -> None:
        self.limit_s = limit_s
        self.now = clock.monotonic
        self.stall_count = 0
        self.wall_s_total = 0.0
        self.wall_s_max = 0.0
        self.cpu_s_total = 0.0
        self.cpu_s_max = 0.0
        self.last_cause: Mapping[str, object] = {}
        self._cpu_s = cpu_s
        self._cpu_at = cpu_s()
        self._cpu_read_at = self.now()
        self._part: tuple[float, Cause] | None = None  # the slowest part of the present work: its seconds, and what
        self._silent_until = float("-inf")
        self._silent_count = 0

    def begin(self) -> float:
        """A piece of work begins: the time, for `end`."""
        now = self.now()
        if now - self._cpu_read_at > CPU_READ_EVERY_S:
            self._cpu_at, self._cpu_read_at = self._cpu_s(), now
        self._part = None
        return now

    def end(self, started: float, cause: Cause) -> None:
        """The piece of work that began at `started` has ended. `cause` is called only if it took too long."""
        wall_s = self.now() - started
        if wall_s > self.limit_s:
            self._stalled(wall_s, cause)

    def end_part(self, started: float, cause: Cause) -> None:
        """A part of a piece of work has ended: one of the requests in a buffer. The slowest is named if it is late."""
        wall_s = self.now() - started
        if self._part is None or self._part[0] < wall_s:
            self._part = (wall_s, cause)

    def steps(self, work: Coroutine[Any, Any, T], cause: Cause) -> Coroutine[Any, Any, T]:
        """The same coroutine, each of its steps being a piece of work."""
        return _Steps(work, self, cause)

    def figures(self) -> dict[str, str]:
        """What was counted, in the form of the runtime information: times in milliseconds."""
        return {
            "loopStallCount": str(self.stall_count),
            "loopStallLimitMillis": f"{self.limit_s * 1000:g}",
            "loopStallTimeTotalMillis": f"{self.wall_s_total * 1000:.0f}",
            "loopStallTimeMaxMillis": f"{self.wall_s_max * 1000:.0f}",
            "loopStallCpuTotalMillis": f"{self.cpu_s_total * 1000:.0f}",
            "loopStallCpuMaxMillis": f"{self.cpu_s_max * 1000:.0f}",
            "loopStallLast": " ".join(f"{name}={value}" for name, value in self.last_cause.items()),
        }

    def _stalled(self, wall_s: float, cause: Cause) -> None:
        # The CPU time is the first thing to read: to find out what the work was takes some too.
        cpu_s = min(self._cpu_s() - self._cpu_at, wall_s)
        part, self._part = self._part, None
        if part is not None and part[0] > wall_s / 2:
            cause = part[1]
        self.stall_count += 1
        self.wall_s_total += wall_s
        self.wall_s_max = max(self.wall_s_max, wall_s)
        self.cpu_s_total += cpu_s
        self.cpu_s_max = max(self.cpu_s_max, cpu_s)
        self.last_cause = cause()
        self._log(wall_s, cpu_s)

    def _log(self, wall_s: float, cpu_s: float) -> None:
        now = self.now()
        if now < self._silent_until:
            self._silent_count += 1
            return
        fields = {"wall_ms": round(wall_s * 1000), "cpu_ms": round(cpu_s * 1000), "not_logged": self._silent_count}
        logger.warning("loop stalled", extra={**self.last_cause, **fields})
        self._silent_until, self._silent_count = now + LOG_EVERY_S, 0


class _Steps(Coroutine[Any, Any, T]):
    """A coroutine whose steps are watched."""

    __slots__ = ("_cause", "_watch", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], watch: LoopWatch, cause: Cause) -> None:
        self._work = work
        self._watch = watch
        self._cause = cause

    def send(self, value: Any) -> Any:
        started = self._watch.begin()
        try:
            return self._work.send(value)
        finally:
            self._watch.end(started, self._cause)

    def throw(self, *error: Any) -> Any:
        started = self._watch.begin()
        try:
            return self._work.throw(*error)
        finally:
            self._watch.end(started, self._cause)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()


def start_task(work: Coroutine[Any, Any, T], *, name: str, watch: LoopWatch | None) -> asyncio.Task[T]:
    """Start a task of the running loop, under its watch if it has one. The caller owns the task."""
    if watch is not None:
        work = watch.steps(work, lambda: {"work": name})
    return asyncio.get_running_loop().create_task(work, name=name)
