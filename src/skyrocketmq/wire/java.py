"""Two numbers that Java computes and every peer must compute alike: the hash of a text, the checksum of a body.

Nothing here knows messages or frames; the other codecs stand on it. (Java's properties text, a third habit,
is read and written by `config.properties_text`.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skyrocketmq.hot import text_hash as string_hash
from skyrocketmq.hot.checksum import CRC_LONG_FROM_BYTES, body_crc, crc32_long
from skyrocketmq.hot.layout import RECORD_CRC_MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from mmap import mmap

    ReadableData = bytes | bytearray | memoryview | mmap

__all__ = ["CRC_LONG_FROM_BYTES", "CRC_MASK", "body_crc", "string_hash", "whole_crcs"]

CRC_MASK: Final = RECORD_CRC_MASK


def whole_crcs(bodies: Iterable[ReadableData]) -> Iterator[int]:
    """CRC-32 of many, with its highest bit: who compares them masks both sides with `CRC_MASK`, all at once."""
    return map(crc32_long, bodies)
