"""The messages within the body of a batch request.

Cost, a message of 128 B (`python -m benchmarks hot`): 0.1 us compiled, 1 us in plain Python.

Rule: the lengths inside an entry decide; total, magic code and checksum are not believed, as on Apache's broker.
"""

from __future__ import annotations

import sys
from struct import Struct

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot.layout import (
    BATCH_ENTRY_BYTES_MIN,
    BATCH_HEAD_BYTES,
    BATCH_HEAD_FORMAT,
    BATCH_PROPERTIES_LENGTH_BYTES,
)

__all__ = ["decode_batch"]

_head_at = Struct(BATCH_HEAD_FORMAT).unpack_from


def decode_batch(data: bytes, *, count_max: int = sys.maxsize) -> list[tuple[int, bytes, bytes]]:
    """(flag, body, text of the properties) of each message.

    Raises `ProtocolError` if a length leads out of the batch, or there are more messages than `count_max`.
    """
    entries: list[tuple[int, bytes, bytes]] = []
    at, end = 0, len(data)
    while at < end:
        if len(entries) >= count_max:
            raise ProtocolError(f"the batch has more than {count_max} messages")
        if end - at < BATCH_ENTRY_BYTES_MIN:
            raise ProtocolError(f"the batch ends within the entry at {at}")
        *_, flag, body_bytes = _head_at(data, at)
        body_at = at + BATCH_HEAD_BYTES
        body_end = body_at + body_bytes
        properties_at = body_end + BATCH_PROPERTIES_LENGTH_BYTES
        if body_bytes < 0 or properties_at > end:
            raise ProtocolError(
                f"the batch entry at {at} announces a body of {body_bytes} bytes, {end - body_at} are left"
            )
        properties_bytes = int.from_bytes(data[body_end:properties_at], "big", signed=True)
        if properties_bytes < 0 or properties_at + properties_bytes > end:
            raise ProtocolError(
                f"the batch entry before {properties_at} announces {properties_bytes} bytes of properties"
            )
        at = properties_at + properties_bytes
        entries.append((flag, data[body_at:body_end], data[properties_at:at]))
    return entries
