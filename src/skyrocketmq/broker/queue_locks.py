"""Which consumer may read a queue in order: locks that consumers take, renew and lose.

Rule 1: a lock belongs to one client of one group. It is granted if it is free, held by the same client, or was not
renewed for `ttl_s`. Only its owner can give it back.
Rule 2: locks are memory. After a restart consumers, who renew every 20 s, simply take them again.
Rule 3: whether the queue exists is not asked: a lock on nothing harms nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skyrocketmq.model import MessageQueue

__all__ = ["QueueLocks"]


@dataclass(slots=True)
class Lock:
    client_id: str
    renewed_s: float


class QueueLocks:
    """The locks of one broker. Times are monotonic seconds, so that a clock that is set cannot expire a lock."""

    def __init__(self, *, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._groups: dict[str, dict[MessageQueue, Lock]] = {}

    def lock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str, now_s: float) -> list[MessageQueue]:
        """Take or renew what can be had; returns the queues the client holds now."""
        locks = self._groups.setdefault(group, {})
        granted = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                locks[queue] = Lock(client_id, now_s)
            elif lock.client_id == client_id or now_s - lock.renewed_s > self._ttl_s:
                lock.client_id = client_id
                lock.renewed_s = now_s
            else:
                continue
            granted.append(queue)
        return granted

    def unlock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str) -> None:
        """Give back those queues that the client holds."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
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
        return count
