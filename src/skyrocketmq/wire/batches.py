"""The body of SEND_BATCH_MESSAGE: several messages for one queue, one after the other.

    | total 4 | magic 4 = 0 | crc 4 = 0 | flag 4 | body length 4 | body | properties length 2 | properties |

Rule 1: the lengths inside an entry decide; total, magic and crc are written and never believed, as on Apache's broker.
Rule 2: entries travel as tuples (flag, body, properties), because a batch may hold thousands and the store turns each
into a record at once. Whether they may travel together (one topic, no delay) the producer checks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct
from typing import Any, Final, TypeAlias

from skyrocketmq.errors import IllegalArgument, ProtocolError
from skyrocketmq.wire.properties import PROPERTIES_BYTES_MAX

HEAD: Final = Struct(">iiiii")  # | total | magic | crc | flag | body length |
ENTRY_BYTES_MIN: Final = 22
assert HEAD.size + 2 == ENTRY_BYTES_MIN

BatchEntry: TypeAlias = tuple[int, bytes, bytes]
"""(flag, body, properties as text)"""


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """The body of a batch request. Raises `IllegalArgument` for properties that no record could hold."""
    parts: list[bytes] = []
    for flag, body, properties in entries:
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise IllegalArgument(
                f"the properties take {len(properties)} bytes, a message can carry {PROPERTIES_BYTES_MAX}"
            )
        total = ENTRY_BYTES_MIN + len(body) + len(properties)
        parts += (HEAD.pack(total, 0, 0, flag, len(body)), body, len(properties).to_bytes(2, "big"), properties)
    return b"".join(parts)


def decode_batch(data: bytes, *, count_max: int = sys.maxsize) -> list[BatchEntry]:
    """The messages of a batch; `ProtocolError` if a length leads out of it, or there are more than `count_max`."""
    entries: list[BatchEntry] = []
    at, end = 0, len(data)
    # Where one is as long as the one before it, those that follow mostly are too: one call then reads all of an entry.
    last_bytes = (-1, -1)
    read_alike: Callable[[bytes, int], tuple[Any, ...]] | None = None
    entry_bytes = 0
    while at < end:
        if len(entries) >= count_max:
            raise ProtocolError(f"the batch has more than {count_max} messages")
        if read_alike is not None and end - at >= entry_bytes:
            flag, body_bytes, body, properties_bytes, properties = read_alike(data, at)
            if (body_bytes, properties_bytes) == last_bytes:
                entries.append((flag, body, properties))
                at += entry_bytes
                continue
        flag, body_at, body_end, properties_at, at = _entry_places(data, at, end)
        entries.append((flag, data[body_at:body_end], data[properties_at:at]))
        sizes = (body_end - body_at, at - properties_at)
        read_alike = _reader_of(*sizes) if sizes == last_bytes else None
        last_bytes, entry_bytes = sizes, ENTRY_BYTES_MIN + sum(sizes)
    return entries


@lru_cache(maxsize=256)
def _reader_of(body_bytes: int, properties_bytes: int) -> Callable[[bytes, int], tuple[Any, ...]]:
    return Struct(f">12xii{body_bytes}sh{properties_bytes}s").unpack_from


def _entry_places(data: bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """(flag, where the body begins and ends, where the properties begin and end) of the entry that begins here."""
    if end - at < ENTRY_BYTES_MIN:
        raise ProtocolError(f"the batch ends within the entry at {at}")
    _, _, _, flag, body_bytes = HEAD.unpack_from(data, at)
    body_at = at + HEAD.size
    body_end = body_at + body_bytes
    properties_at = body_end + 2
    if body_bytes < 0 or properties_at > end:
        raise ProtocolError(f"the batch entry at {at} announces a body of {body_bytes} bytes, {end - body_at} are left")
    properties_bytes = int.from_bytes(data[body_end:properties_at], "big", signed=True)
    if properties_bytes < 0 or properties_at + properties_bytes > end:
        raise ProtocolError(f"the batch entry before {properties_at} announces {properties_bytes} bytes of properties")
    return flag, body_at, body_end, properties_at, properties_at + properties_bytes
