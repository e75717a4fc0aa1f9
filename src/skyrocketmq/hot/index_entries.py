"""Keys into an index file: slots, which are changed in the mapped part of the file, and entries, which are written.

Cost: 15 ns a key compiled, plus a cache miss for a slot nobody looked at lately, and 0.25 us to pack it; 1.2 and 4 us
in plain Python (`python -m benchmarks hot`).

    keys = pack_key(b"order-1", start, log_offset, store_ms) + ...     # `start` is the hash of "topic#"
    entries, used = put_keys(mapped, keys, first=count, slot_count=5_000_000, begin_ms=begin_ms)
    file.pwrite(entries, ...)       # if that fails: take_back_keys(mapped, entries, slot_count=5_000_000)

Rule 1: entries are numbered from 1. A slot holds the number of its newest entry, each entry that of the one before it.
Rule 2: after a crash a slot may hold anything. A number that no earlier entry has counts as none: entries that lead to
each other in a circle would hold a reader for ever.
Rule 3: keys come as `layout` draws them and `pack_key` makes them, in the order of the log.
"""

from __future__ import annotations

from struct import Struct

from skyrocketmq.hot.hashes import key_hash
from skyrocketmq.hot.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SECONDS_MAX,
    INDEX_SLOT_BYTES,
    KEY_BYTES,
)

__all__ = ["pack_key", "put_keys", "take_back_keys"]

_KEY = Struct(">iqq")
_SLOT = Struct(">i")
_ENTRY = Struct(">iqii")


def pack_key(key: bytes, start: int, log_offset: int, store_ms: int) -> bytes:
    """A key of the message that was stored at this place and time, on its way to the index."""
    return _KEY.pack(key_hash(key, start), log_offset, store_ms)


def put_keys(
    mapped: bytearray | memoryview, keys: bytes, *, first: int, slot_count: int, begin_ms: int
) -> tuple[bytes, int]:
    """Let the slots point to new entries, the first of which has the number `first`.

    `mapped` are header and slots of the file, `begin_ms` its begin time. Returns the entries, and how many slots were
    empty. Raises `ValueError`, and changes nothing, if the numbers or sizes do not fit each other.
    """
    count = len(keys) // KEY_BYTES
    if len(keys) % KEY_BYTES or not 0 < first <= 0x7FFF_FFFF - count:
        raise ValueError(f"{len(keys)} bytes are not keys whose entries are numbered from {first} on")
    _check_slots(len(mapped), slot_count)
    entries: list[bytes] = []
    used = 0
    for number, (hashed, log_offset, store_ms) in enumerate(_KEY.iter_unpack(keys), first):
        slot_at = INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * (hashed % slot_count)
        (previous,) = _SLOT.unpack_from(mapped, slot_at)
        if not 0 < previous < number:
            previous = 0
            used += 1
        entries.append(_ENTRY.pack(hashed, log_offset, _seconds_since(begin_ms, store_ms), previous))
        _SLOT.pack_into(mapped, slot_at, number)
    return b"".join(entries), used


def take_back_keys(mapped: bytearray | memoryview, entries: bytes, *, slot_count: int) -> None:
    """Let the slots point to what they pointed to before these entries, which could not be written.

    Raises `ValueError`, and changes nothing, if the sizes do not fit each other.
    """
    if len(entries) % INDEX_ENTRY_BYTES:
        raise ValueError(f"{len(entries)} bytes are not entries")
    _check_slots(len(mapped), slot_count)
    for hashed, _, _, previous in reversed(list(_ENTRY.iter_unpack(entries))):
        _SLOT.pack_into(mapped, INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * (hashed % slot_count), previous)


def _check_slots(mapped_bytes: int, slot_count: int) -> None:
    if slot_count <= 0 or mapped_bytes < INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * slot_count:
        raise ValueError(f"{mapped_bytes} bytes have no room for {slot_count} slots")


def _seconds_since(begin_ms: int, store_ms: int) -> int:
    if begin_ms <= 0:
        return 0
    return min(max((store_ms - begin_ms) // 1000, 0), INDEX_SECONDS_MAX)
