"""Telling how far a long pass over the log has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from skyrocketmq.store.log_scan import Stretch

__all__ = ["Progress", "told"]

PROGRESS_EVERY: Final = 1 << 24  # bytes of the log
Progress = Callable[[int, int], object]
"""Called now and then with how many bytes of the log are done, and how many there are. From any thread."""


def told(
    stretches: Iterator[Stretch], progress: Progress, *, begin: int, end: int, every: int = PROGRESS_EVERY
) -> Iterator[Stretch]:
    """The stretches, which lie between two log offsets, while `progress` hears where they are."""
    next_at = begin + every
    for stretch in stretches:
        yield stretch
        done_at = stretch.log_offset + stretch.end - stretch.at
        if done_at >= next_at:
            next_at = done_at + every
            progress(done_at - begin, end - begin)
    progress(end - begin, end - begin)
