"""A Bloom filter: which of many subscribers want a message, in a few bytes beside the message's place in its queue.

Each subscriber has a few places among the bits. A message for which a subscriber's expression is true gets the bits at
its places; where one of them is missing, the subscriber does not want the message, and its record need not be read.
Where all are there it may want it.

Rule 1: sizes and places are Apache's to the bit, because both brokers read what the other has written.
Rule 2: bit p is in byte p // 8 with weight 1 << (p % 8): the bytes are one number, the lowest byte first.
"""

from __future__ import annotations

from math import ceil, e, log
from typing import Final

__all__ = ["BloomFilter", "murmur_hash"]

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class BloomFilter:
    """The shape of a filter: made for so many subscribers with this chance in percent to be wrong about one."""

    __slots__ = ("bit_count", "byte_count", "place_count")

    def __init__(self, *, error_percent: int, subscriber_count: int) -> None:
        self.place_count = ceil(log(error_percent / 100) / log(0.5))
        bits = ceil(subscriber_count * (log(100 / error_percent) / log(2)) * (log(e) / log(2)))
        self.byte_count = (bits + 7) // 8
        self.bit_count = self.byte_count * 8

    def places(self, subscriber: str) -> tuple[int, ...]:
        """The places of a subscriber, which is called `group#topic`."""
        hashed = murmur_hash(subscriber.encode("utf-8", "replace"))
        low, high = _int32(hashed), _int32(hashed >> 32)
        combined = (_int32(low + number * high) for number in range(1, self.place_count + 1))
        return tuple((~each if each < 0 else each) % self.bit_count for each in combined)

    def mask(self, places: tuple[int, ...]) -> int:
        """The places as a number with these bits, to be joined with others or looked for in one."""
        mask = 0
        for place in places:
            mask |= 1 << place
        return mask

    def encode(self, mask: int) -> bytes:
        return mask.to_bytes(self.byte_count, "little")

    def decode(self, data: bytes) -> int | None:
        """The bits as a number; None if they are those of a filter of another size."""
        return int.from_bytes(data, "little") if len(data) == self.byte_count else None


def murmur_hash(data: bytes) -> int:
    """The first 64 bits of MurmurHash3 (the 128-bit form for 64-bit machines) with seed 0."""
    h1 = h2 = 0
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        k1 = int.from_bytes(data[at : at + 8], "little")
        k2 = int.from_bytes(data[at + 8 : at + 16], "little")
        h1 ^= _mixed_1(k1)
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mixed_2(k2)
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    rest = data[whole:]
    if len(rest) > 8:
        h2 ^= _mixed_2(int.from_bytes(rest[8:], "little"))
    if rest:
        h1 ^= _mixed_1(int.from_bytes(rest[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_finished(h1) + _finished(h2)) & _MASK


def _mixed_1(value: int) -> int:
    return _rotated(value * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_2(value: int) -> int:
    return _rotated(value * _C2 & _MASK, 33) * _C1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _finished(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value
