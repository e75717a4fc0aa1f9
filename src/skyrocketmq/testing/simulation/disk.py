"""The disk of one node: a `FaultyDisk` whose syncs take different times, and may be done at any moment of that time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from skyrocketmq.ports import Clock
from skyrocketmq.testing.disk import FaultyDisk

__all__ = ["SimDisk"]

P = ParamSpec("P")
T = TypeVar("T")

QUICK_S: Final = (0.0005, 0.005)
LATE_SHARE: Final = 0.02  # of the syncs take up to LATE_S
LATE_S: Final = 0.06
STEP_S: Final = 0.0001  # a call to a thread and back


class SimDisk(FaultyDisk):
    """What `run` is given happens at its beginning or at its end, as chance will have it: a power cut in between finds
    it done or not done. Whoever waits goes on after the time that it took."""

    def __init__(
        self,
        clock: Clock,
        chance: random.Random,
        *,
        directories: Iterable[Path] = (),
        capacity_bytes: int | None = None,
    ) -> None:
        self._chance = chance
        self.usual_s = 0.0  # what each sync takes besides, always
        self.slow_s = 0.0  # and for now
        super().__init__(directories=directories, clock=clock, capacity_bytes=capacity_bytes)

    def _like(self) -> SimDisk:
        assert self._clock is not None, "given to it when it was made"
        made = SimDisk(self._clock, self._chance)
        made.usual_s, made.slow_s = self.usual_s, self.slow_s
        return made

    @property
    def _sync_seconds(self) -> float:  # drawn anew for each sync
        chance = self._chance
        late_s = LATE_S * chance.random() if chance.random() < LATE_SHARE else 0.0
        return chance.uniform(*QUICK_S) + late_s + self.usual_s + self.slow_s

    @_sync_seconds.setter
    def _sync_seconds(self, seconds: float) -> None: ...

    def fill(self, free_bytes: int) -> None:
        """Leave only so much space; `capacity_bytes = None` gives all of it back."""
        self.capacity_bytes = self._used_bytes() + free_bytes

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        assert self._clock is not None, "given to it when it was made"
        if self._chance.random() < 0.5:
            await self._clock.sleep(self._chance.uniform(STEP_S, QUICK_S[1]) + self.usual_s + self.slow_s)
        self._seconds_due = 0.0
        try:
            return function(*args, **kwargs)
        finally:
            seconds, self._seconds_due = self._seconds_due, 0.0
            await self._clock.sleep(seconds or STEP_S)
