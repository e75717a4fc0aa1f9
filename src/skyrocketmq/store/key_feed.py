"""Keys on their way into the index: some wait for company, some because the index could not be written.

Rule 1: the index is fed in the order of the log, and only with keys of messages that are in it. After a crash what is
missing in the index is found in the log, so keys may wait here.
Rule 2: an index that cannot be written stops the store from taking more messages until it can; those whose keys wait
count as stored.
"""

from __future__ import annotations

import logging
from typing import Final

from skyrocketmq.errors import StoreError
from skyrocketmq.hot.layout import KEY_BYTES
from skyrocketmq.store.index import Index
from skyrocketmq.store.statuses import RunningFlag, RunningState

__all__ = ["KeyFeed"]

logger = logging.getLogger(__name__)

KEYS_TOGETHER: Final = 32  # so many are put into the index at once


class KeyFeed:
    """Feeds an index with packed keys (`hot.pack_key`); None where there is none. Called on the loop's thread."""

    def __init__(self, index: Index | None, state: RunningState) -> None:
        self._index = index
        self._state = state
        self._waiting = b""  # for company, or because the index could not take them: then the flag is up

    def add(self, keys: bytes) -> None:
        """Take keys of messages that were stored. A message that comes alone would pay as much for its key as for
        everything else, so a few wait for each other: until somebody reads, and a second at most.
        """
        self._waiting += keys
        if len(self._waiting) >= KEYS_TOGETHER * KEY_BYTES and not self._state.flags & RunningFlag.INDEX_WRITE_ERROR:
            self.put_all()

    def put_all(self) -> None:
        """Put into the index whatever waits here. Whoever reads the index calls this first; called once a second."""
        keys, self._waiting = self._waiting, b""
        if not keys or self._index is None:
            return
        try:
            taken = self._index.put_all(keys)
        except (StoreError, OSError) as error:
            taken = 0
            if self._state.raise_flag(RunningFlag.INDEX_WRITE_ERROR):
                logger.error("index cannot be written", extra={"error": str(error)})
        except Exception:
            # No key may keep the store from going on: these messages are not found by key, and that is said.
            logger.exception("keys not indexed", extra={"count": len(keys) // KEY_BYTES})
            return
        if taken < len(keys):
            self._waiting = keys[taken:]
            self._state.raise_flag(RunningFlag.INDEX_WRITE_ERROR)
        elif self._state.lower_flag(RunningFlag.INDEX_WRITE_ERROR):
            logger.info("index can be written again")
