"""A point in time by both clocks, for what must never be believed for too long.

Wall time jumps when somebody sets it, and monotonic time stands still while a machine is suspended (on Linux). A lease
is over as soon as either clock says so: to end it too early costs one more question, to end it too late means reading
what another member reads.

Everything that only has to be measured uses monotonic time alone.
"""

from __future__ import annotations

from typing import NamedTuple

from skyrocketmq.ports import Clock

__all__ = ["Moment"]


class Moment(NamedTuple):
    wall_ms: int
    monotonic_s: float

    @classmethod
    def now(cls, clock: Clock) -> Moment:
        return cls(clock.now_ms(), clock.monotonic())

    def passed_ms(self, since: Moment) -> float:
        """How much later this is: by the clock that says more."""
        return max(self.wall_ms - since.wall_ms, (self.monotonic_s - since.monotonic_s) * 1000)
