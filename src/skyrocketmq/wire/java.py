"""Two numbers that Java computes and every peer must compute alike: the hash of a text, the checksum of a body.

A hot module: every stored message passes through both. Nothing here knows messages or frames; it is the floor the
other codecs stand on. (Java's properties text, a third habit, is read and written by `config.properties_text`.)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final
from zlib import crc32 as _crc32_short

from zlib_ng.zlib_ng import crc32 as _crc32_long

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from mmap import mmap

    ReadableData = bytes | bytearray | memoryview | mmap

CRC_MASK: Final = 0x7FFFFFFF
CRC_LONG_FROM_BYTES: Final = 256  # zlib-ng wins from here on: 0.05 against 0.40 us at 1 KB; below, its call costs more


def string_hash(text: str | bytes) -> int:
    """`String.hashCode` of a text (or of its UTF-8 form): `h = 31 * h + unit` over UTF-16 units, as a signed int32.

    >>> string_hash("TagA")
    2598919
    """
    if isinstance(text, str):
        if text.isascii():
            units: bytes | tuple[int, ...] = text.encode("ascii")
        else:
            units = _utf16_units(text)
    elif text.isascii():
        units = text
    else:
        units = _utf16_units(text.decode("utf-8", "replace"))
    value = 0
    if len(units) <= 64:
        # Letting the number grow is cheaper than cutting it at every step, as long as it stays small.
        for unit in units:
            value = value * 31 + unit
        value &= 0xFFFFFFFF
    else:
        for unit in units:
            value = (value * 31 + unit) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def _utf16_units(text: str) -> tuple[int, ...]:
    data = text.encode("utf-16-be", "surrogatepass")
    return struct.unpack(f">{len(data) // 2}H", data)


def body_crc(data: ReadableData) -> int:
    """CRC-32 without its highest bit, as the family stores it (Java keeps it in a signed int)."""
    if len(data) < CRC_LONG_FROM_BYTES:
        return _crc32_short(data) & CRC_MASK
    checksum: int = _crc32_long(data)
    return checksum & CRC_MASK


def whole_crcs(bodies: Iterable[ReadableData]) -> Iterator[int]:
    """CRC-32 of many, with its highest bit: who compares them masks both sides with `CRC_MASK`, all at once."""
    return map(_crc32_long, bodies)
