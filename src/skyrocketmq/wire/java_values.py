"""From a parsed JSON value to a typed one, the way fastjson fills a Java object.

`msgspec` converts what has the right types; this is for the rest, member by member:

- a member that is missing or null keeps its default; members nobody knows are ignored;
- a number may be written as text and a text as number; a boolean also as text or number; fractions are cut off;
- an enum may be given by name in any case or by position; one that does not exist is null, so the default remains;
- an object used as a key may also be a text that holds the object's JSON.

What fits none of these (a list where an object belongs) is a `ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire import json_dialect
from skyrocketmq.wire.tolerant_header import java_text

__all__ = ["convert_java_value"]

T = TypeVar("T")


def convert_java_value(value: object, cls: type[T]) -> T:
    """The value as an instance of `cls`, a struct or a type made of structs, dicts, lists, sets, numbers and texts."""
    wanted: Any = cls
    converted: T = _converter(wanted)(value)
    return converted


class _Missing(Exception):
    """A value that counts as null: the member keeps its default."""


@cache
def _converter(cls: Any) -> Callable[[object], Any]:
    return _converter_of(inspect.type_info(cls))


def _converter_of(kind: inspect.Type) -> Callable[[object], Any]:
    if isinstance(kind, inspect.UnionType):  # only unions with None occur
        (kind,) = (member for member in kind.types if not isinstance(member, inspect.NoneType))
    match kind:
        case inspect.StructType():
            return _struct_converter(kind)
        case inspect.DictType():
            return _dict_converter(kind)
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
            return _sequence_converter(kind)
        case inspect.EnumType():
            return _enum_converter(kind.cls)
        case inspect.IntType():
            return _int_converter(kind)
        case inspect.FloatType():
            return _to_float
        case inspect.BoolType():
            return _to_bool
        case inspect.StrType():
            return _to_text
    raise AssertionError(f"no rule for {kind}")


def _struct_converter(kind: inspect.StructType) -> Callable[[object], msgspec.Struct]:
    cls = kind.cls
    members = [(field.encode_name, field.name, _converter_of(field.type)) for field in kind.fields]

    def convert(value: object) -> msgspec.Struct:
        if isinstance(value, str) and value.startswith("{"):
            value = json_dialect.parse(value.encode())  # an object as a key, in its quoted form
        if not isinstance(value, Mapping):
            raise _mismatch(f"a {cls.__name__}", value)
        found: dict[str, Any] = {}
        for wire_name, attribute, convert_member in members:
            member = value.get(wire_name)
            if member is not None:
                try:
                    found[attribute] = convert_member(member)
                except _Missing:
                    pass
        struct: msgspec.Struct = cls(**found)
        return struct

    return convert


def _dict_converter(kind: inspect.DictType) -> Callable[[object], dict[Any, Any]]:
    convert_key, convert_item = _converter_of(kind.key_type), _converter_of(kind.value_type)

    def convert(value: object) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise _mismatch("an object", value)
        found = {}
        for key, item in value.items():
            if item is not None:
                try:
                    found[convert_key(key)] = convert_item(item)
                except _Missing:
                    pass
        return found

    return convert


def _sequence_converter(
    kind: inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType,
) -> Callable[[object], Any]:
    convert_item = _converter_of(kind.item_type)
    make: type = {
        inspect.ListType: list,
        inspect.SetType: set,
        inspect.FrozenSetType: frozenset,
        inspect.VarTupleType: tuple,
    }[type(kind)]

    def convert(value: object) -> Any:
        if not isinstance(value, list):
            raise _mismatch("a list", value)
        found = []
        for item in value:
            if item is not None:
                try:
                    found.append(convert_item(item))
                except _Missing:
                    pass
        return make(found)

    return convert


def _enum_converter(cls: type[Enum]) -> Callable[[object], Enum]:
    members = list(cls)
    by_name = {member.name.lower(): member for member in members}

    def convert(value: object) -> Enum:
        if isinstance(value, str):
            member = by_name.get(value.lower())
            if member is None:
                raise _Missing
            return member
        if isinstance(value, int) and 0 <= value < len(members):
            return members[value]
        raise _mismatch(f"a {cls.__name__}", value)

    return convert


def _int_converter(kind: inspect.IntType) -> Callable[[object], int]:
    lowest, highest = kind.ge, kind.le

    def convert(value: object) -> int:
        if isinstance(value, str):
            text = value.strip().replace(",", "")  # fastjson takes thousands apart by commas
            if text in ("", "null", "NULL"):
                raise _Missing
            try:
                value = int(text) if len(text) <= 20 else None
            except ValueError:
                value = None
        elif isinstance(value, float):
            value = int(value) if -(2.0**63) <= value < 2.0**63 else None
        if not isinstance(value, int) or (lowest is not None and value < lowest) or (highest and value > highest):
            raise _mismatch("a whole number in range", value)
        return int(value)

    return convert


def _to_float(value: object) -> float:
    if isinstance(value, str) and len(value) <= 400:
        try:
            return float(value)
        except ValueError:
            raise _mismatch("a number", value) from None
    if isinstance(value, (int, float)):
        return float(value)  # the parser bounds the digits of a whole number: no overflow
    raise _mismatch("a number", value)


def _to_bool(value: object) -> bool:
    if isinstance(value, (bool, int)):
        return value == 1
    if value in ("", "null", "NULL"):
        raise _Missing
    boolean = _BOOLEAN_WORDS.get(value.lower()) if isinstance(value, str) else None
    if boolean is None:
        raise _mismatch("a boolean", value)
    return boolean


_BOOLEAN_WORDS = {"true": True, "1": True, "y": True, "t": True, "false": False, "0": False, "n": False, "f": False}


def _to_text(value: object) -> str:
    text = java_text(value)
    if text is None:
        raise _Missing
    return text


def _mismatch(wanted: str, value: object) -> ProtocolError:
    return ProtocolError(f"a body has a {type(value).__name__} where {wanted} belongs")
