"""Which consumer may read a queue in order: locks that consumers take, renew and lose.

Rule 1: a lock belongs to one client of one group. It is granted if it is free, held by the same client, or was not
renewed for `ttl_s`. Only its owner can give it back.
Rule 2: who holds what is kept over a restart, for as long as a consumer may go on without renewing (`restore`). Which
consumer comes back first is chance: it would be alone, take every queue, and read it beside the one that still has it.
Rule 3: that locks are still renewed is noted every `NOTED_EVERY_S`, so that those of a broker that was away for long
are known to be over.
Rule 4: a group, and all of them together, have no more locks than they may. Whoever asks for more gets none of them;
renewing is always possible. Whether a queue exists is asked by `handlers_locks`.
Rule 5: owners and times are two maps, so that a copy of the owners is made at once, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from skyrocketmq.model import MessageQueue

__all__ = ["CLIENT_TRUST_S", "NOTED_EVERY_S", "QueueLocks"]

CLIENT_TRUST_S: Final = 30.0  # for so long a consumer of the family goes on after it has renewed a lock
NOTED_EVERY_S: Final = 10.0


class GroupLocks:
    """The locks of one group, by queue: who holds it, and when he said so last."""

    __slots__ = ("owners", "renewed_s")

    def __init__(self) -> None:
        self.owners: dict[MessageQueue, str] = {}
        self.renewed_s: dict[MessageQueue, float] = {}

    def __len__(self) -> int:
        return len(self.owners)

    def drop(self, queue: MessageQueue) -> None:
        del self.owners[queue], self.renewed_s[queue]


class QueueLocks:
    """The locks of one broker. Times are monotonic seconds, so that a clock that is set cannot expire a lock."""

    def __init__(self, *, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._groups: dict[str, GroupLocks] = {}
        self._noted_s = 0.0
        self.count = 0  # of all groups
        self.change_count = 0  # of what is to be kept: owners, and now and then that they are alive
        self.listeners: list[Callable[[], object]] = []

    def count_of(self, group: str) -> int:
        """How many queues the consumers of a group have locked."""
        return len(self._groups.get(group, ()))

    def count_new(self, queues: Collection[MessageQueue], *, group: str) -> int:
        """How many more locks there would be with these."""
        known = self._groups.get(group)
        return len(set(queues)) if known is None else len(set(queues) - known.owners.keys())

    def lock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str, now_s: float) -> list[MessageQueue]:
        """Take or renew what can be had; returns the queues the client holds now."""
        locks = self._groups.get(group) or GroupLocks()
        owners, renewed_s = locks.owners, locks.renewed_s
        before = len(locks)
        granted = []
        is_changed = False
        for queue in queues:
            owner = owners.get(queue)
            if owner != client_id:
                if owner is not None and now_s - renewed_s[queue] <= self._ttl_s:
                    continue
                owners[queue] = client_id
                is_changed = True
            renewed_s[queue] = now_s
            granted.append(queue)
        self.count += len(locks) - before
        if locks:
            self._groups[group] = locks
        if granted and (is_changed or now_s - self._noted_s >= NOTED_EVERY_S):
            self._noted_s = now_s
            self._changed()
        return granted

    def unlock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str) -> None:
        """Give back those queues that the client holds."""
        locks = self._groups.get(group)
        if locks is None:
            return
        before = len(locks)
        for queue in queues:
            if locks.owners.get(queue) == client_id:
                locks.drop(queue)
        self._dropped(group, before - len(locks))

    def owner(self, queue: MessageQueue, *, group: str, now_s: float) -> str | None:
        """The client that holds the queue."""
        locks = self._groups.get(group)
        if locks is None or queue not in locks.owners or now_s - locks.renewed_s[queue] > self._ttl_s:
            return None
        return locks.owners[queue]

    def drop_expired(self, *, now_s: float) -> int:
        """Forget the locks that nobody renews; returns how many. Without this, dead groups would fill the memory."""
        return sum(self.drop_expired_in_steps(now_s=now_s))

    def drop_expired_in_steps(self, *, now_s: float) -> Iterator[int]:
        """The same in steps, one for each group: how many of its locks are forgotten."""
        for group, locks in list(self._groups.items()):
            expired = [queue for queue, renewed_s in locks.renewed_s.items() if now_s - renewed_s > self._ttl_s]
            for queue in expired:
                locks.drop(queue)
            self._dropped(group, len(expired))
            yield len(expired)

    def _dropped(self, group: str, count: int) -> None:
        if count:
            self.count -= count
            if not self._groups[group]:
                del self._groups[group]
            self._changed()

    # -- over a restart

    def owners(self) -> dict[str, dict[MessageQueue, str]]:
        """Who holds what, by group: a copy, safe to write from another thread."""
        return {group: dict(locks.owners) for group, locks in self._groups.items()}

    def restore(self, owners: Mapping[str, Mapping[MessageQueue, str]], *, now_s: float, age_s: float = 0.0) -> None:
        """Begin with what was held when the broker ended. Whoever does not renew it soon is gone.

        What was noted longer ago than any consumer trusts its locks is nobody's any more.
        """
        if age_s > CLIENT_TRUST_S + NOTED_EVERY_S:
            return
        renewed_s = now_s - max(0.0, self._ttl_s - CLIENT_TRUST_S)
        self._groups = {}
        for group, held in owners.items():
            if held:
                locks = self._groups[group] = GroupLocks()
                locks.owners = dict(held)
                locks.renewed_s = dict.fromkeys(held, renewed_s)
        self.count = sum(map(len, self._groups.values()))

    def _changed(self) -> None:
        self.change_count += 1
        for listener in self.listeners:
            listener()
