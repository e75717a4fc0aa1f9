r"""The properties of a message as one text: `name \x01 value \x02 name \x01 value`, UTF-8, nothing escaped.

Rule 1: a writer leaves no separator at the end, a reader accepts one (releases before 4.9.1 wrote it).
Rule 2: how all of it is read is told where messages are: `decode_properties` of `model.properties`.

The functions on bytes serve the store, which looks at two or three properties of a record and copies the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.properties import decode_properties

__all__ = [
    "NAME_END",
    "PAIR_END",
    "PROPERTIES_BYTES_MAX",
    "decode_properties",
    "encode_properties",
    "find_property",
    "join_properties",
    "split_properties",
    "without_property",
]

PROPERTIES_BYTES_MAX: Final = 32_767  # the record's length field is a signed 16-bit number
NAME_END: Final = "\x01"
PAIR_END: Final = "\x02"


def encode_properties(properties: Mapping[str, str | None]) -> bytes:
    """The text of these pairs; those whose value is None are left out.

    Raises `IllegalArgument` for what would not be read back as it was (a separator inside a name or value, an empty
    name) or is longer than a record can hold. An empty value is written, as Apache does, and readers drop it.
    """
    pairs = [f"{name}\x01{value}" for name, value in properties.items() if value is not None]
    text = "\x02".join(pairs)
    if pairs and text.count("\x02") != len(pairs) - 1:
        raise IllegalArgument("a property contains the separator \\x02: encode such data, for example as base64")
    for name in properties:
        if not name or "\x01" in name:
            raise IllegalArgument(f"the property name {name!r} is empty or contains the separator \\x01")
    data = text.encode("utf-8", "replace")
    if len(data) > PROPERTIES_BYTES_MAX:
        raise IllegalArgument(f"the properties take {len(data)} bytes, a message can carry {PROPERTIES_BYTES_MAX}")
    return data


def split_properties(properties: bytes) -> dict[bytes, bytes]:
    """All pairs, undecoded: for the store, which wants three of them and copies the text as it is."""
    found: dict[bytes, bytes] = {}
    for pair in properties.split(b"\x02"):
        name, _, value = pair.partition(b"\x01")
        if name and value:
            found[name] = value
    return found


def find_property(properties: bytes, name: bytes) -> bytes | None:
    """The value of one property, without decoding the others."""
    mark = b"\x02%b\x01" % name
    text = b"\x02" + properties
    at = text.rfind(mark)
    while at >= 0:
        start = at + len(mark)
        end = text.find(b"\x02", start)
        value = text[start:] if end < 0 else text[start:end]
        if value:
            return value
        at = text.rfind(mark, 0, at + 1)  # an empty value does not count: an earlier one may
    return None


def without_property(properties: bytes, name: bytes) -> bytes:
    """The text without any pair of this name: the broker does not store `WAIT`."""
    if name not in properties:
        return properties
    mark = name + b"\x01"
    return b"\x02".join([pair for pair in properties.split(b"\x02") if not pair.startswith(mark)])


def join_properties(first: bytes, second: bytes) -> bytes:
    """Two texts as one, the second one's values winning: how a broker adds its own to what a producer sent."""
    if not first or not second:
        return first or second
    return first + second if first.endswith(b"\x02") else b"%b\x02%b" % (first, second)
