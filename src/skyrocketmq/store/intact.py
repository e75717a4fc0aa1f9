"""Whether records that somebody else wrote, or this process in an earlier life, are still what they were.

What this process wrote itself is believed. Anything older was on a disk, and disks forget: a record whose length, magic
code, place or checksum is wrong is reported once, counted, and stepped over, and the messages behind it are delivered.
Without this look a consumer would be given the damaged bytes, and would fail on them for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, TypeAlias

from skyrocketmq.hot.layout import RECORD_BYTES_MIN, RECORD_MAGIC
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.records import head_bytes_of, read_head, sys_flag_of

__all__ = ["BadRecords", "intact_parts", "is_intact"]

logger = logging.getLogger(__name__)

REMEMBERED_MAX: Final = 10_000  # each is said once; after so many a disk is known to be broken
Buffer: TypeAlias = bytes | memoryview


def is_intact(data: Buffer, at: int, size: int, position: int) -> bool:
    """Whether the record at `at` has this size, belongs to this log offset, and its body is the one that was stored."""
    if len(data) < at + size or size < RECORD_BYTES_MIN or size < head_bytes_of(sys_flag_of(data, at)):
        return False
    head = read_head(data, at)
    if head.total_bytes != size or head.magic != RECORD_MAGIC or head.log_offset != position:
        return False
    body_at = at + head_bytes_of(head.sys_flag)
    return (
        0 <= head.body_bytes <= at + size - body_at and body_crc(data[body_at : body_at + head.body_bytes]) == head.crc
    )


def intact_parts(
    parts: Sequence[Buffer], places: Sequence[tuple[int, int]], bad: BadRecords
) -> tuple[Sequence[Buffer], int, int]:
    """The records at these (log offset, size), which `parts` hold one after the other, without the damaged ones.

    Returns the parts, and how many records and bytes they are.
    """
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    good: list[Buffer] = []
    at = 0
    for position, size in places:
        if is_intact(data, at, size, position):
            good.append(data[at : at + size])
        else:
            bad.note(position, size)
        at += size
    if len(good) == len(places):
        return parts, len(places), at
    return [b"".join(good)] if good else (), len(good), sum(map(len, good))


class BadRecords:
    """Those that were met. Loop's thread only."""

    def __init__(self) -> None:
        self.count = 0
        self._met: set[int] = set()

    def note(self, position: int, size: int) -> None:
        """Count and report a record, the first time it is met."""
        if position in self._met or len(self._met) >= REMEMBERED_MAX:
            return
        self._met.add(position)
        self.count += 1
        logger.error("bad record stepped over", extra={"log_offset": position, "bytes": size})
