"""So many messages a second, and not more: when the next one may be sent. Pure, but for the clock that comes in.

Waits are for slices of a twentieth of a second, so that a fast pace does not mean a wait for every message. Time that
was not used (the brokers were slow) is not made up for, beyond one slice: a pace is an upper bound at every moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Pace"]

SLICE_S: Final = 0.05


class Pace:
    """A pace that one task keeps. `monotonic` gives seconds."""

    def __init__(self, per_second: float, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._monotonic = monotonic
        self._slice_s = max(SLICE_S, 1 / per_second)
        self._slice_count = max(int(per_second * self._slice_s), 1)
        self._left = self._slice_count
        self._slice_at_s = monotonic()

    def take(self) -> float:
        """Take leave to send one message; how many seconds to wait before it is sent."""
        if self._left:
            self._left -= 1
            return 0.0
        # A slice lasts as long as its messages take at this pace.
        due_s = self._slice_at_s + self._slice_count / self._per_second
        now_s = self._monotonic()
        self._slice_at_s = max(due_s, now_s)
        self._left = self._slice_count - 1
        return max(due_s - now_s, 0.0)
