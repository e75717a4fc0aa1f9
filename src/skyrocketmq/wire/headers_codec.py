"""From the ext fields of a frame, which are texts, to a typed header and back, by Java's rules.

1. A missing or null field is the header's default: None, or what a Java primitive has (false, 0).
2. A boolean is true only for "true", in any case. A number is decimal, with a sign at most, and fits its 32 or 64 bits.
3. A number that cannot be read is left at its default. "Fast" headers (send V2, pull, and their answers) are different:
   Java parses them by hand and fails, so they raise `ProtocolError`.
4. Nothing is checked for being present: Java marks fields as required but does not enforce it. The handler does.
5. Written are numbers in decimal and booleans as true or false; None is left out.

A header is an `msgspec.Struct`: attributes in snake case, wire names by `rename`. `msgspec` converts the common case in
one call; the rules above are spelt out in `_decode_slowly`, which gets what that call refuses or would take too gladly.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.numbers import INT64_MAX, INT64_MIN

__all__ = ["Ext", "Header", "NoFields", "decode_header", "encode_header"]

Ext = dict[str, str | None]


class Header(msgspec.Struct, rename="camel"):
    """The fields of a request or of an answer. `is_fast` headers refuse numbers they cannot read."""

    is_fast: ClassVar[bool] = False


class NoFields(Header):
    """The header of a request or answer that carries no fields; whatever comes is ignored."""


H = TypeVar("H", bound=Header)


def decode_header(cls: type[H], ext: Ext | None) -> H:
    """The header in a frame's ext fields; fields it does not know are ignored.

    Raises `ProtocolError` for a "fast" header with a number that is none; any other header is always a value.
    """
    if not ext:
        return cls()
    try:
        header = msgspec.convert(ext, cls, strict=False)
    except msgspec.ValidationError:
        return _decode_slowly(cls, ext)
    if "1" in ext.values() and any(ext.get(name) == "1" for name in _plan(cls).booleans):
        return _decode_slowly(cls, ext)  # as a boolean, "1" is true for msgspec and false for Java
    return header


def encode_header(header: Header) -> Ext:
    """The ext fields of a header; fields that are None are left out."""
    ext: Ext = {}
    kind = type(header)
    for attribute, wire_name in (_plans.get(kind) or _plan(kind)).names:
        value = getattr(header, attribute)
        if value is None:
            continue
        if value is True:
            value = "true"
        elif value is False:
            value = "false"
        elif not isinstance(value, str):
            value = str(value)
        ext[wire_name] = value
    return ext


def _decode_slowly(cls: type[H], ext: Ext) -> H:
    values: dict[str, object] = {}
    for field in _plan(cls).fields:
        text = ext.get(field.wire_name)
        if text is None:
            continue
        value: object = text
        if field.is_boolean:
            value = text.lower() == "true"
        elif field.is_number:
            value = _read_number(text, field.lowest, field.highest)
            if value is None:
                if cls.is_fast:
                    raise ProtocolError(f"the field {field.wire_name} of {cls.__name__} is not a number: {text[:40]!r}")
                continue
        values[field.attribute] = value
    return cls(**values)


def _read_number(text: str, lowest: int, highest: int) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if len(text) > 20 or not (digits.isascii() and digits.isdigit()):
        return None
    value = int(text)
    return value if lowest <= value <= highest else None


class _Field(NamedTuple):
    attribute: str
    wire_name: str
    is_boolean: bool
    is_number: bool
    lowest: int
    highest: int


class _Plan(NamedTuple):
    """What is needed about a class, worked out once."""

    names: list[tuple[str, str]]
    booleans: list[str]
    fields: list[_Field]


_plans: dict[type, _Plan] = {}


def _plan(cls: type[Header]) -> _Plan:
    plan = _plans.get(cls)
    if plan is None:
        struct = inspect.type_info(cls)
        assert isinstance(struct, inspect.StructType)
        fields = [_describe(field) for field in struct.fields]
        plan = _plans[cls] = _Plan(
            names=[(field.attribute, field.wire_name) for field in fields],
            booleans=[field.wire_name for field in fields if field.is_boolean],
            fields=fields,
        )
    return plan


def _describe(field: inspect.Field) -> _Field:
    kinds: list[Any] = list(field.type.types) if isinstance(field.type, inspect.UnionType) else [field.type]
    kind = next(kind for kind in kinds if not isinstance(kind, inspect.NoneType))
    is_number = isinstance(kind, inspect.IntType)
    lowest, highest = (kind.ge, kind.le) if is_number else (None, None)
    return _Field(
        attribute=field.name,
        wire_name=field.encode_name,
        is_boolean=isinstance(kind, inspect.BoolType),
        is_number=is_number,
        lowest=INT64_MIN if lowest is None else lowest,
        highest=INT64_MAX if highest is None else highest,
    )
