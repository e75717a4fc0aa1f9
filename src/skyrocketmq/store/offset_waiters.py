"""Senders that wait until the log is safe up to some place: on the disk (`flushing`), or at a slave (`ha.replicas`).

Rule 1: a sender waits for a stated time at most. Its message stays stored; it only is not known to be safe.
Rule 2: who came first waits for the nearer place, and no longer than who came later: the first of the queue is looked
at, and the rest is left alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from skyrocketmq.ports import Clock, Timer
from skyrocketmq.store.statuses import PutStatus

__all__ = ["Callback", "OffsetWaiters", "Waiter"]

Callback = Callable[[PutStatus], object]


class Waiter(NamedTuple):
    end: int
    deadline: float
    callback: Callback


class OffsetWaiters:
    """Who waits. An heir adds to `_waiters`, and starts `_timer` with the first. Loop's thread only."""

    too_late: ClassVar[PutStatus]
    """What a sender is told whose time is over."""

    def __init__(self, *, clock: Clock, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._waiters: deque[Waiter] = deque()
        self._timer: Timer | None = None

    @property
    def timeout_ms(self) -> int:
        """How long a sender waits. Changed, it counts for those too who wait already: Rule 2."""
        return self._timeout_ms

    @timeout_ms.setter
    def timeout_ms(self, milliseconds: int) -> None:
        self._timeout_ms = milliseconds
        if self._timer is not None:
            self._timer.cancel()
            latest = self._clock.monotonic() + milliseconds / 1000
            self._waiters = deque([waiter._replace(deadline=min(waiter.deadline, latest)) for waiter in self._waiters])
            self._expire()

    @property
    def waiting_count(self) -> int:
        return len(self._waiters)

    def _release_up_to(self, offset: int) -> None:
        waiters = self._waiters
        while waiters and waiters[0].end <= offset:
            waiters.popleft().callback(PutStatus.PUT_OK)

    def _expire(self) -> None:
        waiters, now = self._waiters, self._clock.monotonic()
        while waiters and waiters[0].deadline <= now:
            waiters.popleft().callback(self.too_late)
        self._timer = self._clock.call_later(waiters[0].deadline - now, self._expire) if waiters else None

    def _give_up(self) -> None:
        """Tell everybody that what they wait for will not come."""
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            waiter.callback(self.too_late)

    def close(self) -> None:
        """Stop the timer and tell whoever still waits that it is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._give_up()
