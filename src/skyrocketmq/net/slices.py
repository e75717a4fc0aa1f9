"""Long work on one request, in slices: others are served in between, and the peer's next requests wait for it.

A handler that may take long is written as `Steps`: a generator that yields wherever it may be interrupted, and returns
the answer, or what to await for it. `in_slices` runs it; most requests are done within the first slice, and cost
nothing more than that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Final, TypeAlias

from skyrocketmq.ports import Clock
from skyrocketmq.wire.frames import Frame

__all__ = ["SLICE_S", "InOrder", "Steps", "in_slices"]

SLICE_S: Final = 0.005

Steps: TypeAlias = Generator[None, None, Frame | Awaitable[Frame]]


class InOrder:
    """The rest of such work: await it for the answer. The dispatcher takes nothing more from the peer until then."""

    def __init__(self, steps: Steps, clock: Clock) -> None:
        self._steps = steps
        self._clock = clock

    def __await__(self) -> Generator[object, None, Frame]:
        return self._run().__await__()

    async def _run(self) -> Frame:
        while True:
            # Twice: what has come during the slice is only seen after the first, and its turn is before the next slice.
            await self._clock.sleep(0)
            await self._clock.sleep(0)
            done = _run_slice(self._steps, self._clock)
            if done is not None:
                return done if isinstance(done, Frame) else await done


def in_slices(steps: Steps, clock: Clock) -> Frame | Awaitable[Frame]:
    """The answer, if it takes no longer than a slice; else what to await for it."""
    return _run_slice(steps, clock) or InOrder(steps, clock)


def _run_slice(steps: Steps, clock: Clock) -> Frame | Awaitable[Frame] | None:
    end_s = clock.monotonic() + SLICE_S
    try:
        next(steps)
        while clock.monotonic() < end_s:
            next(steps)
    except StopIteration as stop:
        answer: Frame | Awaitable[Frame] = stop.value
        return answer
    return None
