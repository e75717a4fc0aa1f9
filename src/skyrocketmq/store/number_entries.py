"""Entries that say how far the numbers of a queue are spoken for: in `reserved`, `reserved.now` and `ended`.

    | crc32 of what follows 4 | number 8 | queue id 4 | bytes of the topic 2 | topic | zeros up to 32n bytes |

Rule: the last whole entry of a queue counts; one that is not whole was being written when the power was lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final
from zlib import crc32

__all__ = ["ALIGNED_BYTES", "encode_entry", "read_entries"]

ALIGNED_BYTES: Final = 32
_CRC: Final = Struct(">I")
_ENTRY: Final = Struct(">qiH")


def encode_entry(topic: str, queue_id: int, number: int) -> bytes:
    name = topic.encode()
    word = _ENTRY.pack(number, queue_id, len(name)) + name
    return _aligned(_CRC.pack(crc32(word)) + word)


def _aligned(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // ALIGNED_BYTES) * ALIGNED_BYTES, b"\0")


def read_entries(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Topic, queue id and number of those that are whole."""
    at = 0
    while len(data) - at >= ALIGNED_BYTES:
        (checksum,) = _CRC.unpack_from(data, at)
        number, queue_id, topic_bytes = _ENTRY.unpack_from(data, at + _CRC.size)
        end = at + _CRC.size + _ENTRY.size + topic_bytes
        if end <= len(data) and crc32(data[at + _CRC.size : end]) == checksum:
            yield data[end - topic_bytes : end].decode("utf-8", "replace"), queue_id, number
            at += -(-(end - at) // ALIGNED_BYTES) * ALIGNED_BYTES
        else:
            at += ALIGNED_BYTES
