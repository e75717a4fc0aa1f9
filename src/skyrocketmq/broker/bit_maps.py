"""The bit maps of messages: which of the filters on a topic want a message, worked out when it is stored.

Rule 1: a bit map spares work later. Where making it takes too long it is left out, and whoever pulls the message looks
into it (`pull_filters`): so any group may have any filter, and no send waits long for all of them.
Rule 2: a message has none if the filters on its topic have more comparisons than `CONDITIONS_MAX` in all, or if the
messages of the last `WINDOW_S` have taken `WORK_S` already: a batch may have thousands.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.broker.consumer_filters import ConsumerFilters
from skyrocketmq.ports import Clock

__all__ = ["CONDITIONS_MAX", "WINDOW_S", "WORK_S", "BitMaps"]

CONDITIONS_MAX: Final = 4_000  # as many as one pull may take
WINDOW_S: Final = 0.04
WORK_S: Final = 0.01

NO_BIT_MAP: Final = b""


class BitMaps:
    """Made from the filters of a broker. `of` is what the store asks of each message."""

    def __init__(self, filters: ConsumerFilters, clock: Clock) -> None:
        self._filters = filters
        self._clock = clock
        self._begun_s = -WINDOW_S
        self._left_s = 0.0

    def of(self, topic: str, properties: bytes) -> bytes:
        """Which filters on a topic want a message with these properties; empty if there are none, or too many."""
        filters = self._filters.on(topic)
        if not filters:
            return NO_BIT_MAP
        conditions = 0
        for each in filters:
            conditions += each.sql.condition_count
            if conditions > CONDITIONS_MAX:
                return NO_BIT_MAP
        now = self._clock.monotonic
        started_s = now()
        if started_s - self._begun_s >= WINDOW_S:
            self._begun_s, self._left_s = started_s, WORK_S
        until_s = started_s + self._left_s
        mask = 0
        for each in filters:
            if now() >= until_s:
                self._left_s = 0.0
                return NO_BIT_MAP
            if each.sql.matches_text(properties):
                mask |= each.mask
        self._left_s = until_s - now()
        return self._filters.bloom.encode(mask)
