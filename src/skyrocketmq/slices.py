"""Long work on a loop, in slices: others have their turn in between.

slices = Slices(clock)
for entry in table:
    handle(entry)
    await slices.step()
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Final, TypeVar

from skyrocketmq.ports import Clock, Timer

__all__ = ["SLICE_S", "STEPS_A_SLICE", "Backlog", "Slices", "in_slices", "joined_in_slices", "run_slice"]

T = TypeVar("T")

SLICE_S: Final = 0.005  # of work in one go: a tenth of what counts as a stall
STEPS_A_SLICE: Final = 256  # and so many steps at most: on a clock that a test moves, work takes no time


class Slices:
    """Counts the steps and looks at the clock, for one piece of long work."""

    __slots__ = ("_clock", "_steps", "_until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic() + SLICE_S
        self._steps = 0

    async def step(self) -> None:
        """To be called after each step, which is short."""
        self._steps += 1
        if self._steps >= STEPS_A_SLICE or self._clock.monotonic() >= self._until:
            await self.end()

    async def end(self) -> None:
        """Let others have their turn now: for work that comes in large pieces."""
        await self._clock.sleep(0)
        self._until = self._clock.monotonic() + SLICE_S
        self._steps = 0


async def joined_in_slices(parts: Iterable[bytes], clock: Clock) -> bytes:
    """The parts in one. Each is made here, at little cost; others have their turn after each slice of time."""
    made: list[bytes] = []
    slices = Slices(clock)
    for part in parts:
        made.append(part)
        await slices.step()
    return made[0] if len(made) == 1 else b"".join(made)


async def in_slices(steps: Generator[None, None, T], clock: Clock) -> T:
    """What a generator of short steps returns; others have their turn after each slice of time."""
    slices = Slices(clock)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        await slices.step()


def run_slice(steps: Iterator[object], clock: Clock) -> bool:
    """Work for a slice of time; false once nothing is left to do."""
    until = clock.monotonic() + SLICE_S
    return any(clock.monotonic() >= until for _ in steps)


class Backlog:
    """Work that nobody waits for, in the order in which it came: what is short is done at once, the rest in slices.

    However much comes in one turn of the loop, the turn takes about two slices of it. `close` drops what is left.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[Iterator[object]] = deque()
        self._timer: Timer | None = None
        self._begun_s = 0.0  # when the present slice began
        self._worked_s = 0.0  # how much of it was work
        self._is_working = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, steps: Iterator[object]) -> None:
        """Do this after all that was added before."""
        if self._is_closed:
            return
        self._waiting.append(steps)
        if self._timer is not None or self._is_working:
            return
        now = self._clock.monotonic()
        if now - self._begun_s >= 2 * SLICE_S:
            self._begun_s, self._worked_s = now, 0.0
        if self._worked_s < SLICE_S:
            self._work()
        else:
            self._timer = self._clock.call_later(0, self._next_slice)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next_slice(self) -> None:
        self._timer = None
        self._begun_s, self._worked_s = self._clock.monotonic(), 0.0
        self._work()

    def _work(self) -> None:
        clock, waiting = self._clock, self._waiting
        started = clock.monotonic()
        until = started + SLICE_S - self._worked_s
        self._is_working = True  # a step may add more
        try:
            while waiting:
                if next(waiting[0], _DONE) is _DONE:
                    waiting.popleft()
                if clock.monotonic() >= until:
                    break
        except BaseException:
            waiting.popleft()
            raise
        finally:
            self._is_working = False
            self._worked_s += clock.monotonic() - started
            if waiting:
                self._timer = clock.call_later(0, self._next_slice)


_DONE: Final = object()
