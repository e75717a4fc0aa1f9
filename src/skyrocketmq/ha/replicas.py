"""How far the slaves of a master are, and who waits for them: the twin of the store's `flushing`.

Rule 1: a message is replicated once one slave has it. What a slave has said stays true after it has gone.
Rule 2: if no slave is connected, or all are too far behind, a sender is answered at once instead of waiting.
Rule 3: a sender waits for a limited time. After that its message is stored here, and perhaps nowhere else.
"""

from __future__ import annotations

from typing import ClassVar

from skyrocketmq.ports import Clock
from skyrocketmq.store.offset_waiters import Callback, OffsetWaiters, Waiter
from skyrocketmq.store.statuses import PutStatus

__all__ = ["Replicas"]


class Replicas(OffsetWaiters):
    """The slaves that are connected and know where they are, and the sends that wait. Loop's thread only."""

    too_late: ClassVar[PutStatus] = PutStatus.FLUSH_SLAVE_TIMEOUT

    def __init__(self, *, clock: Clock, timeout_ms: int, lag_bytes_max: int) -> None:
        super().__init__(clock=clock, timeout_ms=timeout_ms)
        self.lag_bytes_max = lag_bytes_max
        self.acknowledged = 0  # every byte of the log before this is at a slave
        self.slaves: dict[str, int] = {}  # by the address they connect from: how far they are

    def report(self, slave: str, offset: int) -> None:
        """A slave has everything before this place in the log."""
        self.slaves[slave] = offset
        if offset <= self.acknowledged:
            return
        self.acknowledged = offset
        self._release_up_to(offset)

    def leave(self, slave: str) -> None:
        """The slave's connection has ended. Who waits goes on waiting: it may be back in time."""
        self.slaves.pop(slave, None)

    def when_replicated(self, end: int, callback: Callback) -> None:
        """Call back once a slave has the log up to `end`: PUT_OK; or with what is amiss, at once or in time.

        Ends must not go down from one call to the next.
        """
        if end <= self.acknowledged:
            callback(PutStatus.PUT_OK)
        elif not self.slaves or end - self.acknowledged >= self.lag_bytes_max:
            callback(PutStatus.SLAVE_NOT_AVAILABLE)
        else:
            self._waiters.append(Waiter(end, self._clock.monotonic() + self.timeout_ms / 1000, callback))
            if self._timer is None:
                self._timer = self._clock.call_later(self.timeout_ms / 1000, self._expire)
