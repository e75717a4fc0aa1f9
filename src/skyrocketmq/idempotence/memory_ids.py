"""Ids in memory: for one process, and gone with it. So many at most, and none older than a limit."""

from __future__ import annotations

import threading
from collections import OrderedDict

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.idempotence.ids import Claim
from skyrocketmq.ports import Clock, SystemClock

__all__ = ["MemoryIds"]


class MemoryIds:
    """Remembers up to `count_max` handled ids for up to `ttl_s` seconds."""

    is_blocking = False

    def __init__(self, *, count_max: int = 100_000, ttl_s: float = 3600.0, clock: Clock | None = None) -> None:
        if count_max < 1 or ttl_s <= 0:
            raise IllegalArgument(f"count_max = {count_max} and ttl_s = {ttl_s:g} must be above 0")
        self._count_max = count_max
        self._ttl_s = ttl_s
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards both
        self._busy: dict[str, str] = {}  # who holds it
        self._handled_at: OrderedDict[str, float] = OrderedDict()  # the oldest first

    def __len__(self) -> int:
        return len(self._handled_at)

    def claim(self, key: str, holder: str = "") -> Claim:
        with self._lock:
            self._forget_old()
            if key in self._handled_at:
                return Claim.DONE
            if key in self._busy:
                return Claim.BUSY
            self._busy[key] = holder
            return Claim.NEW

    def finish(self, key: str) -> None:
        with self._lock:
            self._busy.pop(key, None)
            self._handled_at[key] = self._clock.monotonic()
            self._handled_at.move_to_end(key)
            while len(self._handled_at) > self._count_max:
                self._handled_at.popitem(last=False)

    def release(self, key: str, holder: str = "") -> None:
        with self._lock:
            if self._busy.get(key) == holder:
                del self._busy[key]

    def _forget_old(self) -> None:
        oldest_kept = self._clock.monotonic() - self._ttl_s
        while self._handled_at:
            key, at = next(iter(self._handled_at.items()))
            if at >= oldest_kept:
                return
            del self._handled_at[key]
