"""Which consumer may read a queue in order: locks that consumers take, renew and lose.

Rule 1: a lock belongs to one client of one group. It is granted if it is free, held by the same client, or was not
renewed for `ttl_s`. Only its owner can give it back.
Rule 2: who holds what is kept over a restart, for as long as a consumer may go on without renewing (`restore`). Which
consumer comes back first is chance: it would be alone, take every queue, and read it beside the one that still has it.
Rule 3: that locks are still renewed is noted every `NOTED_EVERY_S`, so that those of a broker that was away for long
are known to be over.
Rule 4: whether the queue exists is not asked: a lock on nothing harms nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skyrocketmq.model import MessageQueue

__all__ = ["CLIENT_TRUST_S", "NOTED_EVERY_S", "QueueLocks"]

CLIENT_TRUST_S: Final = 30.0  # for so long a consumer of the family goes on after it has renewed a lock
NOTED_EVERY_S: Final = 10.0


@dataclass(slots=True)
class Lock:
    client_id: str
    renewed_s: float


class QueueLocks:
    """The locks of one broker. Times are monotonic seconds, so that a clock that is set cannot expire a lock."""

    def __init__(self, *, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._groups: dict[str, dict[MessageQueue, Lock]] = {}
        self._noted_s = 0.0
        self.change_count = 0  # of what is to be kept: owners, and now and then that they are alive
        self.listeners: list[Callable[[], object]] = []

    def lock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str, now_s: float) -> list[MessageQueue]:
        """Take or renew what can be had; returns the queues the client holds now."""
        locks = self._groups.setdefault(group, {})
        granted = []
        is_changed = False
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                lock.renewed_s = now_s
            elif lock is None or now_s - lock.renewed_s > self._ttl_s:
                locks[queue] = Lock(client_id, now_s)
                is_changed = True
            else:
                continue
            granted.append(queue)
        if granted and (is_changed or now_s - self._noted_s >= NOTED_EVERY_S):
            self._noted_s = now_s
            self._changed()
        return granted

    def unlock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str) -> None:
        """Give back those queues that the client holds."""
        locks = self._groups.get(group, {})
        before = len(locks)
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if len(locks) != before:
            self._changed()
        if not locks:
            self._groups.pop(group, None)

    def owner(self, queue: MessageQueue, *, group: str, now_s: float) -> str | None:
        """The client that holds the queue."""
        lock = self._groups.get(group, {}).get(queue)
        return lock.client_id if lock is not None and now_s - lock.renewed_s <= self._ttl_s else None

    def drop_expired(self, *, now_s: float) -> int:
        """Forget the locks that nobody renews; returns how many. Without this, dead groups would fill the memory."""
        count = 0
        for group, locks in list(self._groups.items()):
            for queue in [queue for queue, lock in locks.items() if now_s - lock.renewed_s > self._ttl_s]:
                del locks[queue]
                count += 1
            if not locks:
                del self._groups[group]
        if count:
            self._changed()
        return count

    # -- over a restart

    def owners(self) -> dict[str, dict[MessageQueue, str]]:
        """Who holds what, by group: a copy, safe to write from another thread."""
        return {
            group: {queue: lock.client_id for queue, lock in locks.items()} for group, locks in self._groups.items()
        }

    def restore(self, owners: Mapping[str, Mapping[MessageQueue, str]], *, now_s: float, age_s: float = 0.0) -> None:
        """Begin with what was held when the broker ended. Whoever does not renew it soon is gone.

        What was noted longer ago than any consumer trusts its locks is nobody's any more.
        """
        if age_s > CLIENT_TRUST_S + NOTED_EVERY_S:
            return
        renewed_s = now_s - max(0.0, self._ttl_s - CLIENT_TRUST_S)
        self._groups = {
            group: {queue: Lock(client_id, renewed_s) for queue, client_id in locks.items()}
            for group, locks in owners.items()
        }

    def _changed(self) -> None:
        self.change_count += 1
        for listener in self.listeners:
            listener()
