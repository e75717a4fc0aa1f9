"""When a stored message is safe enough to be acknowledged.

With asynchronous flush and no synchronous slave it is so as soon as it is in the log. Otherwise its sender waits for
the disk, for a slave, or for both, unless the message says that it need not (`WAIT=false`). Where both are waited for
and both fail, the disk's failure is told: a slave gets only what is on the disk (`CommitLog.shippable_offset`), so that
it could not be there in time. Apache's brokers, which ship at once, tell the slave's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from skyrocketmq.config import BrokerRole, FlushDiskType
from skyrocketmq.ha import Replicas
from skyrocketmq.store import MessageStore
from skyrocketmq.store.statuses import PutStatus

__all__ = ["Durability"]

Callback = Callable[[PutStatus], object]


class Durability:
    """Who waits for what. `is_at_once`: nobody ever has to wait."""

    def __init__(self, store: MessageStore, replicas: Replicas) -> None:
        self._flusher = store.flusher
        self._replicas = replicas
        self._is_flushed = store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._is_replicated = store.config.broker_role is BrokerRole.SYNC_MASTER
        self.is_at_once = not self._is_flushed and not self._is_replicated

    def when_safe(self, end_offset: int, callback: Callback) -> None:
        """Call back once everything before this log offset is safe, with PUT_OK; or with what is amiss, in time."""
        if not self._is_replicated:
            if self._is_flushed:
                self._flusher.when_flushed(end_offset, callback)
            else:
                callback(PutStatus.PUT_OK)
        elif not self._is_flushed:
            self._replicas.when_replicated(end_offset, callback)
        else:
            both = _Both(callback)
            self._flusher.when_flushed(end_offset, both.flushed)
            self._replicas.when_replicated(end_offset, both.replicated)

    async def wait_safe(self, end_offset: int) -> PutStatus:
        """The same, to be awaited."""
        if self.is_at_once:
            return PutStatus.PUT_OK
        outcome: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
        self.when_safe(end_offset, lambda status: None if outcome.done() else outcome.set_result(status))
        return await outcome


class _Both:
    """Waits for the disk and for a slave at the same time, for one sender or many that came together."""

    __slots__ = ("_callback", "_flush", "_replica")

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._flush: PutStatus | None = None
        self._replica: PutStatus | None = None

    def flushed(self, status: PutStatus) -> None:
        self._flush = status
        if self._replica is not None:
            self._tell(status, self._replica)

    def replicated(self, status: PutStatus) -> None:
        self._replica = status
        if self._flush is not None:
            self._tell(self._flush, status)

    def _tell(self, flush: PutStatus, replica: PutStatus) -> None:
        self._callback(replica if flush is PutStatus.PUT_OK else flush)
