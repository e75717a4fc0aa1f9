"""Writes JSON as fastjson does: for bodies with odd keys, and for the configuration files that Apache's brokers share.

The compact form is for the wire. The pretty form is for files, and looks as Apache's: tabs, members in the order of
the alphabet, no blank after the colon, every member on a line of its own, except that a map whose keys are not texts
has its entries on one line behind the opening brace:

    {
        "offsetTable":{
                "TopicTest@g1":{0:5,1:7
                }
        }
    }

Structs are written by their wire names in alphabetical order; members that are None are left out, in maps too; integer
keys stand without quotation marks unless the caller asks for standard JSON; a struct may be a key. Lists go on lines of
their own in the pretty form, sets and tuples on one (Java's lists and arrays differ in that way). Bodies in standard
JSON are written by `msgspec`; here it writes what tables have tens of thousands of: structs of plain values. Maps of
numbers have a way of their own too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from skyrocketmq.wire.parts import in_parts

__all__ = ["escape_beyond_ascii", "pretty_parts", "write", "write_pretty"]

_text_to_json = msgspec.json.Encoder().encode
_beyond_ascii = re.compile("[^\x00-\x7e]")
_escaped_by_java = re.compile("[\x7f\u2028\u2029]")  # besides control characters


def write(value: object, *, quote_integer_keys: bool = False, ascii_only: bool = False) -> bytes:
    """The compact form. With both options it is standard JSON, as long as no struct is used as a key."""
    parts: list[str] = []
    _Writer(parts, quote_integer_keys=quote_integer_keys, is_pretty=False).value(value, 0)
    data = "".join(parts).encode()
    return escape_beyond_ascii(data) if ascii_only else data


def write_pretty(value: object) -> bytes:
    """The form of configuration files. Map entries are sorted, so that equal content gives equal files."""
    parts: list[str] = []
    _Writer(parts, quote_integer_keys=False, is_pretty=True).value(value, 0)
    return "".join(parts).encode()


def pretty_parts(value: msgspec.Struct) -> Iterator[bytes]:
    """The bytes of `write_pretty` in parts, each of which takes little time; for tables of any size (see `parts`)."""
    return in_parts(value, write_pretty, is_sorted=True)


def escape_beyond_ascii(data: bytes) -> bytes:
    """JSON with every character above U+007E written as an escape: Java's form for readers it does not know."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _beyond_ascii.sub(_escaped, data.decode()).encode()


class _Writer:
    def __init__(self, parts: list[str], *, quote_integer_keys: bool, is_pretty: bool) -> None:
        self.parts = parts
        self.quote_integer_keys = quote_integer_keys
        self.is_pretty = is_pretty

    def value(self, value: object, depth: int) -> None:
        if isinstance(value, Enum):
            value = value.name
        if isinstance(value, msgspec.Struct):
            if not (_is_plain(type(value)) and self.plain_struct(value, depth)):
                self.members(_struct_members(value), depth)
        elif type(value) is dict and value and _has_only_numbers(value):
            self.numbers(sorted(value.items()) if self.is_pretty else list(value.items()), depth)
        elif isinstance(value, Mapping):
            members = _map_members(value, is_sorted=self.is_pretty)
            self.members(members, depth)
        elif isinstance(value, list):
            self.items(value, depth, on_lines=self.is_pretty)
        elif isinstance(value, (tuple, set, frozenset)):
            self.items(value if isinstance(value, tuple) else sorted(value, key=_sort_key), depth, on_lines=False)
        else:
            self.parts.append(_scalar(value))

    def plain_struct(self, struct: msgspec.Struct, depth: int) -> bool:
        """Write a struct of texts and numbers by `msgspec`; False, with nothing written, if Java's text is another."""
        data = _encode_sorted(struct)
        # Only a text that ends in a comma makes more of these than there are members.
        if data.count(b',"') != len(struct.__struct_fields__) - 1 or not data.isascii():
            return False
        if b":null" in data or b"\x7f" in data:
            return False
        text = data.decode()
        if self.is_pretty:
            line = "\n" + "\t" * (depth + 1)
            text = "{" + line + text[1:-1].replace(',"', "," + line + '"') + line[:-1] + "}"
        self.parts.append(text)
        return True

    def members(self, members: list[tuple[Any, object]], depth: int) -> None:
        self.parts.append("{")
        for number, (key, value) in enumerate(members):
            if number:
                self.parts.append(",")
            if isinstance(key, str):
                self.new_line(depth + 1)
                self.parts.append(_scalar(key))
            elif isinstance(key, int) and self.quote_integer_keys:
                self.parts.append(f'"{key}"')
            else:
                self.value(key, depth + 1)
            self.parts.append(":")
            self.value(value, depth + 1)
        if members:
            self.new_line(depth)
        self.parts.append("}")

    def numbers(self, members: list[tuple[Any, object]], depth: int) -> None:
        """The same for numbers by number, in one go: tables of offsets have hundreds of thousands of them."""
        form = '"%d":%d' if self.quote_integer_keys else "%d:%d"
        self.parts.append("{" + ",".join([form % member for member in members]))
        self.new_line(depth)
        self.parts.append("}")

    def items(self, items: Iterable[object], depth: int, *, on_lines: bool) -> None:
        self.parts.append("[")
        is_empty = True
        for item in items:
            if not is_empty:
                self.parts.append(",")
            is_empty = False
            if on_lines:
                self.new_line(depth + 1)
            self.value(item, depth + 1)
        if on_lines and not is_empty:
            self.new_line(depth)
        self.parts.append("]")

    def new_line(self, depth: int) -> None:
        if self.is_pretty:
            self.parts.append("\n" + "\t" * depth)


_encode_sorted = msgspec.json.Encoder(order="sorted").encode


@cache
def _is_plain(kind: type[msgspec.Struct]) -> bool:
    """Whether a struct has members, each a text, a whole number, a truth value or an enum named as it is written."""
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]  # that of a struct has them
    return bool(fields) and all(
        isinstance(field.type, (inspect.StrType, inspect.IntType, inspect.BoolType))
        or (isinstance(field.type, inspect.EnumType) and all(each.value == each.name for each in field.type.cls))
        for field in fields
    )


def _has_only_numbers(mapping: dict[Any, Any]) -> bool:
    return set(map(type, mapping)) == _INT_ALONE and set(map(type, mapping.values())) == _INT_ALONE


_INT_ALONE = {int}


def _struct_members(struct: msgspec.Struct) -> list[tuple[Any, object]]:
    members = (
        (wire_name, getattr(struct, attribute))
        for wire_name, attribute in zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    )
    return sorted(member for member in members if member[1] is not None)


def _map_members(mapping: Mapping[Any, object], *, is_sorted: bool) -> list[tuple[Any, object]]:
    members = [
        (key.name if isinstance(key, Enum) else key, value) for key, value in mapping.items() if value is not None
    ]
    return sorted(members, key=lambda member: _sort_key(member[0])) if is_sorted else members


def _sort_key(value: object) -> tuple[bool, Any]:
    return (False, value) if isinstance(value, int) else (True, str(value))


def _scalar(value: object) -> str:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    if isinstance(value, str):
        try:
            text = _text_to_json(value).decode()
        except UnicodeEncodeError:  # half a surrogate pair: Java writes a question mark
            text = _text_to_json(value.encode("utf-8", "replace").decode()).decode()
        return _escaped_by_java.sub(_escaped, text)
    return _text_to_json(value).decode()


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
