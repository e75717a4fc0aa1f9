r"""Trace data: what a producer or consumer did with a message, as text records in the body of a trace message.

Rule 1: a record is its kind and then the fields of the class of that name below, in the order of their declaration.
Fields are separated by `\x01`, a record ends with `\x02`, and what is unknown is written as the word `null`.
Rule 2: a reader takes what older and newer releases write: fewer or more fields at the end, and kinds of record that it
does not know, which it leaves out. A number that is none is a `ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final, TypeAlias

from skyrocketmq.errors import ProtocolError

FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"


class TraceMessageType(IntEnum):
    """What kind of message was sent."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2  # also used in every EndTransaction record
    DELAY = 3


class ConsumeOutcome(IntEnum):
    """The context code of a SubAfter record."""

    SUCCESS = 0
    TIMEOUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Pub:
    """A message was sent, or could not be."""

    start_ms: int
    region: str | None = None
    group: str | None
    topic: str | None
    msg_id: str | None
    tags: str | None = None
    keys: str | None = None
    store_host: str | None
    body_bytes: int
    cost_ms: int
    message_type: int = TraceMessageType.NORMAL
    offset_msg_id: str | None = None
    is_success: bool
    client_host: str | None = None  # of newer releases; left out where it is unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class SubBefore:
    """A listener is about to be called with the message."""

    start_ms: int
    region: str | None = None
    group: str | None
    request_id: str | None
    msg_id: str | None
    retry_times: int = 0
    keys: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SubAfter:
    """The listener returned; `request_id` ties the record to its SubBefore."""

    request_id: str | None
    msg_id: str | None
    cost_ms: int
    is_success: bool
    keys: str | None = None
    context_code: int = ConsumeOutcome.SUCCESS
    end_ms: int = 0
    group: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EndTransaction:
    """A producer said how a transaction ends."""

    start_ms: int
    region: str | None = None
    group: str | None
    topic: str | None
    msg_id: str | None
    tags: str | None = None
    keys: str | None = None
    store_host: str | None
    message_type: int = TraceMessageType.TRANSACTION_COMMIT
    transaction_id: str | None
    state: str | None  # COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW, spelt so by the family
    is_from_check: bool


TraceRecord: TypeAlias = Pub | SubBefore | SubAfter | EndTransaction


def encode_trace(records: Iterable[TraceRecord], *, is_cloud: bool = False) -> bytes:
    """The body of a trace message. On the access channel CLOUD a SubAfter is shorter and has no end mark."""
    return "".join([_encode_record(record, is_cloud=is_cloud) for record in records]).encode("utf-8", "replace")


def decode_trace(body: bytes) -> list[TraceRecord]:
    """The records of a trace message, in order."""
    records: list[TraceRecord] = []
    for text in body.decode("utf-8", "replace").split(RECORD_END):
        kind, *values = text.rstrip(FIELD_END).split(FIELD_END)  # empty fields at the end say nothing, as in Java
        if kind in _KINDS:
            records.append(_decode_record(kind, values))
    return records


def _encode_record(record: TraceRecord, *, is_cloud: bool) -> str:
    values = [_encode_value(getattr(record, name)) for name, _ in _FIELDS[type(record)]]
    if isinstance(record, Pub) and record.client_host is None:
        values.pop()
    if isinstance(record, SubAfter) and is_cloud:
        return FIELD_END.join([SubAfter.__name__, *values[:_SUB_AFTER_CLOUD_FIELDS]]) + FIELD_END
    return FIELD_END.join([type(record).__name__, *values]) + RECORD_END


def _encode_value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) else str(value)  # an IntEnum is written as its number


def _decode_record(kind: str, values: list[str]) -> TraceRecord:
    cls = _KINDS[kind]
    if cls is Pub and len(values) == _PUB_FIELDS_WITHOUT_OFFSET_ID:
        values = [*values[:-1], "null", values[-1]]  # older releases did not know the offset id
    found = dict.fromkeys((name for name, _ in _FIELDS[cls]), "null")
    found.update(zip(found, values, strict=False))
    decoded = {name: _DECODERS[shape](f"{name} of a {kind} record", found[name]) for name, shape in _FIELDS[cls]}
    record: TraceRecord = cls(**decoded)
    return record


def _decode_text(what: str, value: str) -> str | None:
    return None if value == "null" else value


def _decode_number(what: str, value: str) -> int:
    digits = value.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 19:
        return int(value)
    if value in ("null", ""):
        return 0
    raise ProtocolError(f"trace data: {what} is {value[:40]!r}, not a number")


def _decode_flag(what: str, value: str) -> bool:
    return value.lower() == "true"


_PUB_FIELDS_WITHOUT_OFFSET_ID: Final = 12
_SUB_AFTER_CLOUD_FIELDS: Final = 6
_KINDS: Final[dict[str, type[Any]]] = {cls.__name__: cls for cls in (Pub, SubBefore, SubAfter, EndTransaction)}
_FIELDS: Final = {cls: [(field.name, str(field.type)) for field in fields(cls)] for cls in _KINDS.values()}
_DECODERS: Final[dict[str, Callable[[str, str], str | int | None]]] = {
    "str | None": _decode_text,
    "int": _decode_number,
    "bool": _decode_flag,
}
