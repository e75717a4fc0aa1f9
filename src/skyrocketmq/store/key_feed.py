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
from skyrocketmq.store.index import Index
from skyrocketmq.store.index_file import KeyPlace
from skyrocketmq.store.statuses import RunningFlag, RunningState

__all__ = ["KeyFeed"]

logger = logging.getLogger(__name__)

KEYS_TOGETHER: Final = 32  # so many are put into the index at once, or as many as a millisecond brings


class KeyFeed:
    """Feeds an index; None where there is none. Called on the loop's thread."""

    def __init__(self, index: Index | None, state: RunningState) -> None:
        self._index = index
        self._state = state
        self._fresh: list[KeyPlace] = []  # all of messages that were stored in one millisecond
        self._fresh_ms = 0
        self._late: list[tuple[list[KeyPlace], int]] = []  # that the index could not take

    def add(self, keys: list[KeyPlace], now_ms: int) -> None:
        """Take keys of messages that were stored at this time; they go in together with others of the same time.

        A message that comes alone would pay as much for its key as for everything else.
        """
        if self._fresh and self._fresh_ms != now_ms:
            self.put_fresh()
        self._fresh_ms = now_ms
        self._fresh += keys
        if len(self._fresh) >= KEYS_TOGETHER:
            self.put_fresh()

    def put_fresh(self) -> None:
        """Put into the index what waits for company. Whoever reads the index calls this first."""
        if self._fresh:
            keys, self._fresh = self._fresh, []
            self.put(keys, self._fresh_ms)

    def put(self, keys: list[KeyPlace], now_ms: int) -> None:
        """Put keys into the index now, or behind those that it could not take."""
        index = self._index
        if index is None:
            return
        if self._late:
            self._late.append((keys, now_ms))
            return
        try:
            taken = index.put_all(keys, now_ms)
        except (StoreError, OSError) as error:
            taken = 0
            if self._state.raise_flag(RunningFlag.INDEX_WRITE_ERROR):
                logger.error("index cannot be written", extra={"error": str(error)})
        except Exception:
            # No key may keep the store from going on: these messages are not found by key, and that is said.
            logger.exception("keys not indexed", extra={"count": len(keys), "log_offset": keys[0][2]})
            return
        if taken < len(keys):
            self._late.append((keys[taken:], now_ms))
            self._state.raise_flag(RunningFlag.INDEX_WRITE_ERROR)

    def put_all(self) -> None:
        """Put into the index whatever waits here; called once a second."""
        self.put_fresh()
        late, self._late = self._late, []
        for number, (keys, now_ms) in enumerate(late):
            self.put(keys, now_ms)
            if self._late:
                self._late += late[number + 1 :]
                return
        if late and self._state.lower_flag(RunningFlag.INDEX_WRITE_ERROR):
            logger.info("index can be written again")
