"""The version of a table that brokers keep and name servers compare."""

from __future__ import annotations

import msgspec

from skyrocketmq.model.numbers import Int64

__all__ = ["DataVersion"]


class DataVersion(msgspec.Struct, frozen=True, order=True):
    """When a table was last changed and how often. Two versions are the same only if both numbers are.

    A broker raises it with every change, so that a name server or a slave sees by one comparison whether the rest of a
    registration needs a look.
    """

    timestamp: Int64 = 0
    counter: Int64 = 0

    def next(self, now_ms: int) -> DataVersion:
        """The version after a change made now."""
        return DataVersion(timestamp=now_ms, counter=self.counter + 1)
