"""What a store counts about itself, for the runtime information that operators ask for.

Rule: counting is adding to integers; rates and shares are worked out by whoever shows them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

__all__ = ["PUT_TIME_BOUNDS_MS", "StoreStatistics"]

PUT_TIME_BOUNDS_MS: Final = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""Upper bounds of the buckets in which writes are counted; the last bucket is open."""


@dataclass(slots=True)
class StoreStatistics:
    """Counts since the store was opened."""

    put_count: int = 0  # messages
    put_bytes: int = 0
    put_failed: int = 0
    put_ms_max: int = 0  # of one write, be it of one message or of hundreds
    put_time_counts: list[int] = field(default_factory=lambda: [0] * (len(PUT_TIME_BOUNDS_MS) + 1))
    get_found: int = 0  # reads that gave messages
    get_missed: int = 0  # reads that gave none
    get_count: int = 0  # messages given
    get_ms_max: int = 0  # of one read, waiting for the disk not counted
    cold_reads: int = 0  # reads that had to wait for the disk
    flush_count: int = 0
    flush_ms_max: int = 0

    def put(self, count: int, byte_count: int, seconds: float) -> None:
        self.put_count += count
        self.put_bytes += byte_count
        milliseconds = int(seconds * 1000)
        self.put_time_counts[bisect_left(PUT_TIME_BOUNDS_MS, milliseconds)] += count
        if milliseconds > self.put_ms_max:
            self.put_ms_max = milliseconds

    def got(self, seconds: float, *, is_cold: bool) -> None:
        if is_cold:
            self.cold_reads += 1
        milliseconds = int(seconds * 1000)
        if milliseconds > self.get_ms_max:
            self.get_ms_max = milliseconds
