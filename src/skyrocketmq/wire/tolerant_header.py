"""JSON headers that are not in the usual form, read as fastjson reads them.

The usual form is decoded by `frames` straight into a struct. Here is what that refuses and a Java peer accepts:
numbers and booleans as ext values, null for a number, a language given by its position, and the looser syntax of
`json_dialect`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.codes import Language
from skyrocketmq.wire.json_dialect import parse
from skyrocketmq.wire.json_writer import write

__all__ = ["TolerantHeader", "java_text", "language_code", "read_int32", "read_tolerant_header"]

# Reading this way is slow and must not hold up a server; a header that is both unusual and huge comes from no client.
_TOLERANT_BYTES_MAX = 262_144
_TOLERANT_VALUES_MAX = 5_000
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


class TolerantHeader(NamedTuple):
    """The fields of a header; `opaque` is None where it was missing."""

    code: int
    opaque: int | None
    flag: int
    ext: dict[str, str | None] | None
    remark: str | None
    language: int | None
    version: int


def read_tolerant_header(header: bytes) -> TolerantHeader:
    members = _read_members(header)
    opaque = members.get("opaque")
    ext = members.get("extFields")
    if ext is not None and not isinstance(ext, dict):
        raise ProtocolError("a header's ext fields are not an object")
    return TolerantHeader(
        code=read_int32("code", members.get("code", 0)),
        opaque=None if opaque is None else read_int32("opaque", opaque),
        flag=read_int32("flag", members.get("flag", 0)),
        ext=None if ext is None else {java_text(key) or "": java_text(value) for key, value in ext.items()},
        remark=java_text(members.get("remark")),
        language=_read_language(members.get("language", "JAVA")),
        version=read_int32("version", members.get("version", 0)),
    )


def _read_members(header: bytes) -> dict[str, object]:
    if len(header) > _TOLERANT_BYTES_MAX:
        raise ProtocolError(f"a header of {len(header)} bytes is not in the usual form")
    try:
        members = msgspec.json.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        members = parse(header, values_max=_TOLERANT_VALUES_MAX)
    if not isinstance(members, dict):
        raise ProtocolError("a header is not an object")
    return members


def read_int32(name: str, value: object) -> int:
    """A whole number of 32 bits, given as number or as text; null is 0, and fractions are cut off."""
    if value is None or value == "" or value == "null":
        return 0
    if isinstance(value, str) and len(value) <= 20:
        try:
            value = int(value.replace(",", ""))
        except ValueError:
            raise ProtocolError(f"the field {name} of a header is not a number: {value!r}") from None
    if isinstance(value, float) and _INT32_MIN <= value <= _INT32_MAX:
        value = int(value)
    if not isinstance(value, int) or not _INT32_MIN <= value <= _INT32_MAX:
        raise ProtocolError(f"the field {name} of a header is not a 32-bit number")
    return int(value)


def java_text(value: object) -> str | None:
    """A JSON value where a text is wanted: numbers and booleans as Java prints them, containers as their JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return write(value).decode()


def _read_language(value: object) -> int | None:
    if isinstance(value, str):
        return language_code(value)
    if value is None:
        return None
    number = read_int32("language", value)
    if number not in Language.__members__.values():
        raise ProtocolError(f"a header names the language number {number}, which nobody has")
    return number


def language_code(name: str | None) -> int | None:
    """The number of a language by its name in any case; None for one that nobody knows."""
    return None if name is None else Language.__members__.get(name.upper())
