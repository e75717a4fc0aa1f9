"""When a stored message is safe enough to be acknowledged.

With asynchronous flush and no synchronous slave it is so as soon as it is in the log. Otherwise its sender waits,
unless the message says that it need not (`WAIT=false`). Replication will take its place beside the flush here.
"""

from __future__ import annotations

from collections.abc import Callable

from skyrocketmq.config import FlushDiskType
from skyrocketmq.store import MessageStore
from skyrocketmq.store.statuses import PutStatus

__all__ = ["Durability"]


class Durability:
    """Who waits for what. `is_at_once`: nobody ever has to wait."""

    def __init__(self, store: MessageStore) -> None:
        self._flusher = store.flusher
        self.is_at_once = store.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH

    def when_safe(self, end_offset: int, callback: Callable[[PutStatus], object]) -> None:
        """Call back once everything before this log offset is safe, with PUT_OK; or with what is amiss, in time."""
        if self.is_at_once:
            callback(PutStatus.PUT_OK)
        else:
            self._flusher.when_flushed(end_offset, callback)

    async def wait_safe(self, end_offset: int) -> PutStatus:
        """The same, to be awaited."""
        return PutStatus.PUT_OK if self.is_at_once else await self._flusher.wait_flushed(end_offset)
