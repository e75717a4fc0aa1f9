"""Large tables as text, a part at a time.

A body or a file with one large member (50,000 groups, 100,000 offsets) takes too long to be written in one go on a
thread that has others to serve. `in_parts` gives the same bytes in parts, each of a few entries:

    b"".join(in_parts(table, encode)) == encode(table)

Rule 1: only the member with the most entries is split. It is found by its length, and its place in the text by writing
        the value once with that member empty, and once with its first entries alone.
Rule 2: the parts are made when they are asked for. Frozen values in a copied table are safe until then.
Rule 3: this is for structs at the top, whose `encode` writes a member the same way whatever its neighbours are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec

__all__ = ["ENTRIES_A_PART", "Splitter", "in_parts"]

S = TypeVar("S", bound=msgspec.Struct)

ENTRIES_A_PART: Final = 64


class Splitter(Generic[S]):
    """Writes the entries of one member apart from the rest of a struct; for entries that are still being made.

    `value` has the member empty: what is written around the entries. Its other members may be replaced at the end.
    """

    def __init__(self, value: S, name: str, encode: Callable[[S], bytes]) -> None:
        self._value = value
        self._name = name
        self._encode = encode
        self._prefix, self._suffix = self._around(value)
        self._closing = b""  # what stands between the last entry and the bracket, the same after each part

    def entries(self, some: object) -> bytes:
        """The text of some entries, at least one, without the brackets."""
        text = self._encode(msgspec.structs.replace(self._value, **{self._name: some}))
        assert text.startswith(self._prefix), "the member is written the same way whatever it holds"
        assert text.endswith(self._suffix)
        inner = text[len(self._prefix) : len(text) - len(self._suffix)]
        entries = inner.rstrip(b"\n\t")
        self._closing = inner[len(entries) :]
        return entries

    def around(self, value: S) -> tuple[bytes, bytes]:
        """What comes before all entries and what comes after them, where the other members are as in `value`."""
        prefix, suffix = self._around(value)
        return prefix, self._closing + suffix

    def _around(self, value: S) -> tuple[bytes, bytes]:
        empty = self._encode(value)
        wire_name = dict(zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True))[self._name]
        mark = b'"%b":' % wire_name.encode()
        at = empty.index(mark) + len(mark) + 1
        assert empty[at - 1 : at + 1] in (b"{}", b"[]"), "the member is the first of its name"
        return empty[:at], empty[at:]


def in_parts(
    value: S, encode: Callable[[S], bytes], *, count: int = ENTRIES_A_PART, is_sorted: bool = False
) -> Iterator[bytes]:
    """The bytes of `encode(value)` in parts of `count` entries. `is_sorted`: `encode` sorts the keys of maps."""
    name = _largest_member(value)
    if name is None or len(getattr(value, name)) <= count:
        yield encode(value)
        return
    large = getattr(value, name)
    empty = msgspec.structs.replace(value, **{name: type(large)()})
    splitter = Splitter(empty, name, encode)
    yield splitter.around(empty)[0]
    for number, some in enumerate(_pieces(large, count, is_sorted=is_sorted)):
        yield (b"," if number else b"") + splitter.entries(some)
    yield splitter.around(empty)[1]


def _largest_member(value: msgspec.Struct) -> str | None:
    sizes = {
        name: len(member)
        for name in value.__struct_fields__
        if isinstance(member := getattr(value, name), (dict, list, tuple))
    }
    return max(sizes, key=sizes.__getitem__) if sizes else None


def _pieces(large: Any, count: int, *, is_sorted: bool) -> Iterator[Any]:
    if isinstance(large, dict):
        keys = iter(_sorted(large) if is_sorted else list(large))
        while some := list(islice(keys, count)):
            yield {key: large[key] for key in some}
    else:
        for first in range(0, len(large), count):
            yield large[first : first + count]


def _sorted(large: dict[Any, Any]) -> list[Any]:
    """The keys in the order in which the writers put them: numbers before the rest, which goes by its text."""
    if set(map(type, large)) <= {str}:
        return sorted(large)  # five times faster than by a key
    return sorted(large, key=lambda key: (False, key) if isinstance(key, int) else (True, str(key)))
