"""Where records begin in bytes that are records one after the other, by their sizes alone.

A hot module: the one step a message takes in Python. Messages of a topic are often of one size: where some in a row
are, numpy finds out how many more are.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skyrocketmq.errors import CorruptRecord
from skyrocketmq.wire.records import RECORD_BYTES_MIN

__all__ = ["places_in_answer", "places_of_records"]

ALIKE_COUNT: Final = 4  # so many of one size, and it is worth asking how many follow

_size_at = Struct(">i").unpack_from
_SIZE: Final = np.dtype(">i4")


def places_of_records(data: bytes | memoryview) -> tuple[NDArray[np.int64], int]:
    """Where the records begin that lie in these bytes whole, and where the last of them ends."""
    starts: list[int] = []
    append = starts.append
    size_at, at, stop = _size_at, 0, len(data)
    last_start = stop - RECORD_BYTES_MIN
    alike_total = alike_count = 0
    while at <= last_start:
        total = size_at(data, at)[0]
        if total < RECORD_BYTES_MIN or total > stop - at:
            break
        if total != alike_total:
            alike_total, alike_count = total, 0
        alike_count += 1
        if alike_count == ALIKE_COUNT:
            end = at + total * _alike_count(data, at, total)
            starts += range(at, end, total)
            at, alike_total = end, 0
            continue
        append(at)
        at += total
    return np.asarray(starts, np.int64), at


def places_in_answer(data: bytes | memoryview) -> NDArray[np.int64]:
    """Where each record of a broker's answer begins. Raises `CorruptRecord` unless it is records to its end."""
    starts, end = places_of_records(data)
    left = len(data) - end
    if left:
        total = _size_at(data, end)[0] if left >= 4 else 0
        raise CorruptRecord(f"no record begins at byte {end} of the answer: {total} bytes announced, {left} left")
    return starts


def _alike_count(data: bytes | memoryview, at: int, total: int) -> int:
    """How many records from here on have this size; they lie in the data whole."""
    count = (len(data) - at) // total
    sizes: NDArray[Any] = np.ndarray((count,), _SIZE, buffer=data, offset=at, strides=(total,))
    is_other = sizes != total
    return int(is_other.argmax()) if is_other.any() else count
