"""Reading large tables, an entry at a time.

A body with one large map takes too long to be read in one go on a thread that has others to serve. `decode_in_steps`
first finds where each entry begins and ends, which is quick, then reads them one by one:

    steps = decode_in_steps(SubscriptionGroupTable, "subscription_group_table", body)

Each `next` reads one entry; the value comes with `StopIteration`, as from any generator. What is not standard JSON (see
`json_dialect`) is read in one go, by `decode_body`.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from skyrocketmq.wire.bodies import decode_body

__all__ = ["decode_in_steps"]

S = TypeVar("S", bound=msgspec.Struct)


def decode_in_steps(cls: type[S], member: str, data: bytes) -> Generator[None, None, S]:
    """A `cls` whose `member` is a large map; the same as `decode_body` gives, and the same errors."""
    rough_decoder, entry_decoder = _decoders(cls, member)
    try:
        if b"$ref" in data:  # a reference is valid JSON and would be taken for an object with unknown members
            raise msgspec.DecodeError("for the parser of the dialect")
        rough = rough_decoder.decode(data)
        yield
        entries = {}
        for key, text in getattr(rough, member).items():
            entries[key] = entry_decoder.decode(text)
            yield
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_body(cls, data)
    values = {name: getattr(rough, name) for name in cls.__struct_fields__} | {member: entries}
    return cls(**values)


@cache
def _decoders(cls: type[msgspec.Struct], member: str) -> tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]:
    """For the struct with the entries of one member left as text, and for one entry."""
    hints = get_type_hints(cls, include_extras=True)
    key_type, entry_type = get_args(hints[member])
    assert key_type is str, "entries are found by name"
    fields = []
    for each in msgspec.structs.fields(cls):
        kind = dict[str, msgspec.Raw] if each.name == member else hints[each.name]
        default = msgspec.field(name=each.encode_name, default=each.default)
        if each.default_factory is not msgspec.NODEFAULT:
            default = msgspec.field(name=each.encode_name, default_factory=each.default_factory)
        fields.append((each.name, kind, default))
    rough = msgspec.defstruct(f"Rough{cls.__name__}", fields, kw_only=True)
    return msgspec.json.Decoder(rough, strict=False), msgspec.json.Decoder(entry_type, strict=False)
