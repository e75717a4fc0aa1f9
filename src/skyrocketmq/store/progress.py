"""Telling how far a long pass over the log has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from skyrocketmq.wire.records import ScannedRecord

__all__ = ["Progress", "told"]

PROGRESS_EVERY: Final = 1 << 24  # bytes of the log
Progress = Callable[[int, int], object]
"""Called now and then with how many bytes of the log are done, and how many there are. From any thread."""


def told(
    records: Iterator[ScannedRecord], progress: Progress, *, begin: int, end: int, every: int = PROGRESS_EVERY
) -> Iterator[ScannedRecord]:
    """The records, which lie between two log offsets, while `progress` hears where they are."""
    next_at = begin + every
    for record in records:
        yield record
        if record[4] >= next_at:
            next_at = record[4] + every
            progress(record[4] - begin, end - begin)
    progress(end - begin, end - begin)
