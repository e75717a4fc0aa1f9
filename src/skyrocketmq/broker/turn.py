"""One commit a turn of the loop: all that connections send in a turn shares one write of the log.

Rule: who begins a batch through here need not commit it. It ends with the turn, or before: when it has grown large, or
when somebody has to see what it holds.
"""

from __future__ import annotations

import asyncio
from typing import Final

from skyrocketmq.store import Batch, MessageStore

__all__ = ["Turn"]

COMMIT_BYTES: Final = 1024 * 1024  # a batch of so many bytes does not wait for the end of the turn


class Turn:
    """The turn of one broker's loop."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._batch: Batch | None = None  # the one that will be committed
        self._loop = asyncio.get_running_loop()

    def begin(self) -> Batch:
        """The open batch, which is committed when this turn ends."""
        batch = self._store.begin()
        if batch is not self._batch:
            self._batch = batch
            self._loop.call_soon(self._end, batch)
        return batch

    def commit_if_large(self, batch: Batch) -> None:
        """Let a large batch go now, so that its answers and its memory do not wait for others."""
        if batch.byte_count > COMMIT_BYTES:
            batch.commit()

    def _end(self, batch: Batch) -> None:
        if not batch.has_ended:
            batch.commit()
