"""The checksum of a message's body. There is one form of it: C code of two libraries computes it anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32 as crc32_short

from zlib_ng.zlib_ng import crc32 as crc32_long

from skyrocketmq.hot.layout import RECORD_CRC_MASK

if TYPE_CHECKING:
    from mmap import mmap

    ReadableData = bytes | bytearray | memoryview | mmap

__all__ = ["CRC_LONG_FROM_BYTES", "body_crc", "crc32_long", "crc32_short"]

CRC_LONG_FROM_BYTES: Final = 256  # zlib-ng wins from here on: 0.05 against 0.40 us at 1 KB; below, its call costs more


def body_crc(data: ReadableData) -> int:
    """CRC-32 without its highest bit, as Apache RocketMQ stores it (Java keeps it in a signed int)."""
    if len(data) < CRC_LONG_FROM_BYTES:
        return crc32_short(data) & RECORD_CRC_MASK
    checksum: int = crc32_long(data)
    return checksum & RECORD_CRC_MASK
