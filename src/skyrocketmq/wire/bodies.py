"""JSON bodies: from bytes to typed values and back.

Standard JSON of the expected types goes through `msgspec` in one step. What fastjson accepts besides (see
`json_dialect`, `java_values`) is tried afterwards, in two more: unquoted integer keys are first put in quotation marks,
because whole tables come in that form; only then is the text read by the parser of the dialect.

Writing gives Java's text: members in alphabetical order, null members left out, integer keys without quotation marks
unless standard JSON is asked for, queues as keys in the form of objects. The structs themselves are in `bodies_*` and
`model`; those with integer keys declare their members in alphabetical order of the wire names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, partial
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire import json_dialect
from skyrocketmq.wire.java_values import convert_java_value
from skyrocketmq.wire.json_writer import escape_beyond_ascii
from skyrocketmq.wire.parts import in_parts

__all__ = ["body_parts", "decode_body", "decode_request", "encode_body"]

T = TypeVar("T")


def decode_request(cls: type[T], data: bytes) -> T:
    """The same of what a peer asks a server, which has little time for each of its many clients.

    A body of many tiny parts takes long to read, one in the looser dialect ten times as long: beyond what any client
    has to say, both are refused.
    """
    if len(data) > _SMALL_REQUEST_BYTES:
        parts = data.count(b",") + data.count(b"{")
        if parts > REQUEST_PARTS_MAX:
            raise ProtocolError(f"a {cls.__name__} of {parts} parts: the limit is {REQUEST_PARTS_MAX}")
    return decode_body(cls, data, dialect_bytes_max=DIALECT_BYTES_MAX, dialect_values_max=DIALECT_VALUES_MAX)


def decode_body(
    cls: type[T],
    data: bytes,
    *,
    dialect_bytes_max: int | None = None,
    dialect_values_max: int = json_dialect.VALUES_MAX,
) -> T:
    """The body as a `cls`, which is a struct; `ProtocolError` if it cannot be one, also for an empty body."""
    if not data:
        raise ProtocolError(f"a {cls.__name__} was expected, but there is no body")
    if len(data) > _LARGE_BODY_BYTES and data.count(b":") + data.count(b"{") > _PARTS_MAX:
        raise ProtocolError(f"a {cls.__name__} of {len(data)} bytes has more than {_PARTS_MAX} parts")
    is_short = dialect_bytes_max is None or len(data) <= dialect_bytes_max
    if b"$ref" in data:  # a reference is valid JSON and would be taken for an object with unknown members
        if not is_short:
            raise ProtocolError(f"a {cls.__name__} of {len(data)} bytes has references")
        return convert_java_value(json_dialect.parse(data, values_max=dialect_values_max), cls)
    try:
        return _decoder(cls).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    quoted, count = _unquoted_key.subn(rb'\1"\2":', data, 0 if dialect_bytes_max is None else dialect_values_max)
    if count:
        # Inside a text this would add a quotation mark where no JSON can have one: then the next line fails, and the
        # original is read below.
        try:
            return _decoder(cls).decode(quoted)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    if not is_short:
        raise ProtocolError(f"a {cls.__name__} of {len(data)} bytes is no JSON of the standard, as it has to be")
    return convert_java_value(json_dialect.parse(data, values_max=dialect_values_max), cls)


REQUEST_PARTS_MAX = 200_000  # of a request's body: read in some 30 ms
DIALECT_BYTES_MAX = 262_144  # of a request's body in the dialect
DIALECT_VALUES_MAX = 5_000
_SMALL_REQUEST_BYTES = 65_536
# Tiny members and objects take up to thirty times their bytes in memory: a large body may not consist of them alone.
_LARGE_BODY_BYTES = 4 * 1024 * 1024
_PARTS_MAX = 2_000_000
_unquoted_key = re.compile(rb"([{,])(-?[0-9]{1,19}):")


def encode_body(value: msgspec.Struct, *, standard_json: bool = False) -> bytes:
    """The body as Java writes it.

    With `standard_json` integer keys are in quotation marks and characters beyond ASCII are escaped: what the family's
    newer clients ask for. Queues as keys have no standard form and stay objects.
    """
    keys = _key_kinds(type(value))
    if keys.has_structs or (keys.has_integers and not standard_json):
        return json_dialect.write(value, quote_integer_keys=standard_json, ascii_only=standard_json)
    data = (_encode_declared if keys.has_integers else _encode_sorted)(value)
    if b":null" in data:
        data = _null_member.sub(b"", data)
    return escape_beyond_ascii(data) if standard_json else data


def body_parts(value: msgspec.Struct, *, standard_json: bool = False) -> Iterator[bytes]:
    """The bytes of `encode_body` in parts, each of which takes little time; for tables of any size (see `parts`)."""
    keys = _key_kinds(type(value))
    # The writer for odd keys keeps the order of a map; the other one sorts by name.
    is_sorted = not keys.has_structs and not keys.has_integers
    return in_parts(value, partial(encode_body, standard_json=standard_json), is_sorted=is_sorted)


# A text's own quotation marks are escaped, so neither pattern can match inside one.
_null_member = re.compile(rb'"\w+":null,|,?"\w+":null')

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_encode_declared = msgspec.json.Encoder().encode  # the sorting encoder refuses integer keys


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _decoder(cls: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _decoders.get(cls)
    if decoder is None:
        decoder = _decoders[cls] = msgspec.json.Decoder(cls, strict=False)
    return decoder


class _KeyKinds(msgspec.Struct):
    has_integers: bool = False
    has_structs: bool = False


@cache
def _key_kinds(cls: type) -> _KeyKinds:
    """What kinds of keys the maps inside a struct have: they decide which writer is right."""
    kinds = _KeyKinds()
    waiting: list[inspect.Type] = [inspect.type_info(cls)]
    while waiting:
        kind = waiting.pop()
        match kind:
            case inspect.StructType():
                waiting += [field.type for field in kind.fields]
            case inspect.UnionType():
                waiting += kind.types
            case inspect.DictType():
                kinds.has_integers |= isinstance(kind.key_type, inspect.IntType)
                kinds.has_structs |= isinstance(kind.key_type, inspect.StructType)
                waiting.append(kind.value_type)
            case inspect.ListType() | inspect.FrozenSetType() | inspect.VarTupleType():
                waiting.append(kind.item_type)
    return kinds
