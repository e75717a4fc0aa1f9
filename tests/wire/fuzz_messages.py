"""What a fuzz loop needs of the message codecs: each decoder with inputs that it understands, to be damaged.

A decoder here takes bytes and may return anything or raise `ProtocolError`. Limits on inflated bodies are low, so that
a loop of millions is not spent on filling memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from skyrocketmq.errors import IllegalArgument, ProtocolError
from skyrocketmq.filters import SqlError, SqlFilter, parse_tags
from skyrocketmq.hot import split_records
from skyrocketmq.model.flags import CompressionType
from skyrocketmq.wire.batches import decode_batch
from skyrocketmq.wire.compression import compress, compression_bits, decompress
from skyrocketmq.wire.ids import decode_offset_id, decode_unique_id
from skyrocketmq.wire.properties import (
    decode_properties,
    find_property,
    join_properties,
    split_properties,
    without_property,
)
from skyrocketmq.wire.records import decode_records, encode_blank, encode_record, scan_record
from skyrocketmq.wire.signing import is_signed_by
from skyrocketmq.wire.trace import decode_trace, encode_trace
from tests.wire.test_batches import TWO
from tests.wire.test_records import SMALL, STORED, V6_HOST
from tests.wire.test_trace import AFTER, BEFORE, END, PUB

BODY_BYTES_MAX = 20_000
COMPRESSED = [
    encode_record(
        topic=b"TopicTest",
        body=compress(b"hello, hello, hello " * 20, kind),
        properties=b"TAGS\x01TagA\x02KEYS\x01k1",
        queue_id=1,
        queue_offset=2,
        log_offset=3,
        born_timestamp=4,
        born_host=V6_HOST,
        store_timestamp=5,
        store_host=V6_HOST,
        sys_flag=compression_bits(kind) | 0x30,
    )
    for kind in CompressionType
]


class Target(NamedTuple):
    """One decoder under test."""

    name: str
    decode: Callable[[bytes], object]
    seeds: list[bytes]


def _scan(data: bytes) -> object:
    """Scanned from its beginning; other places and ends may only fail in the one way."""
    for at, end in ((len(data) // 2, len(data)), (len(data) // 2, len(data) - 1), (0, len(data) - 1)):
        try:
            scan_record(data, at, end)
        except ProtocolError:
            continue
    return scan_record(data, 0, len(data))


def _messages(data: bytes) -> list[str]:
    messages = decode_records(data, broker_name="b", body_bytes_max=BODY_BYTES_MAX, total_bytes_max=2 * BODY_BYTES_MAX)
    assert sum(len(message.body) for message in messages) <= 2 * BODY_BYTES_MAX + len(data)
    return [f"{message.msg_id} {message.born_host} {message.keys} {message.delay_level}" for message in messages]


def _properties(data: bytes) -> object:
    found = find_property(data, b"TAGS")
    assert (found is None) == ("TAGS" not in decode_properties(data))
    assert find_property(without_property(data, b"TAGS"), b"TAGS") is None
    return decode_properties(join_properties(data, data))


def _ids(data: bytes) -> object:
    text = data.decode("latin-1")
    return decode_offset_id(text), decode_unique_id(text)


def _inflate(kind: CompressionType) -> Callable[[bytes], object]:
    def inflate(data: bytes) -> None:
        assert len(decompress(data, kind, bytes_max=BODY_BYTES_MAX)) <= BODY_BYTES_MAX

    return inflate


def _signature(data: bytes) -> object:
    fields: dict[str, str | None] = dict(decode_properties(data))
    return is_signed_by(fields | {"Signature": data.decode("utf-8", "replace")}, data, secret_key="secret")


def _tags(data: bytes) -> object:
    try:
        return parse_tags(data.decode("utf-8", "replace"))
    except IllegalArgument as error:
        raise ProtocolError(str(error)) from error


def _sql(data: bytes) -> object:
    """An expression, asked of properties that may make it fail; both within bounds."""
    text = data.decode("utf-8", "replace")
    try:
        compiled = SqlFilter(text)
    except SqlError as error:
        if not 0 <= error.at <= len(text) or len(str(error)) > 500:
            raise AssertionError(f"the place or the text of {error!r} is wrong") from error
        raise ProtocolError(error.reason) from error
    values = {"a": "7", "b": text[:100], "c": "6.5"}
    answer = compiled.matches(values)
    if "\x01" not in text[:100] and "\x02" not in text[:100]:
        assert (
            compiled.matches_text("\x02".join(f"{name}\x01{value}" for name, value in values.items()).encode())
            is answer
        )
    return answer


def _split(data: bytes) -> object:
    pairs = split_properties(data)
    texts = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in pairs.items()}
    if len(texts) == len(pairs):
        assert texts == decode_properties(data)
    return pairs


TARGETS = [
    Target("records.scan", _scan, [SMALL, STORED, SMALL + STORED, encode_blank(100) + bytes(92), *COMPRESSED]),
    Target("records.split", split_records, [SMALL + STORED + SMALL]),
    Target("records.decode", _messages, [SMALL, STORED + SMALL, *COMPRESSED]),
    Target("batches.decode", decode_batch, [TWO]),
    Target("properties", _properties, [b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02", b"TAGS\x01\x02TAGS\x01\xe4\xb8\xad"]),
    *[Target(f"compression.{kind.name}", _inflate(kind), [compress(b"abcabc" * 50, kind)]) for kind in CompressionType],
    Target("ids", _ids, [b"0A00000200002A9F0000000000001000", b"20010DB8" * 7]),
    Target("signing", _signature, [b"AccessKey\x01rocketmq2\x02topic\x01T"]),
    Target("trace", decode_trace, [encode_trace([PUB, BEFORE, AFTER, END])]),
    Target("tags", _tags, [b"TagA || TagB", b"*"]),
    Target(
        "sql",
        _sql,
        [
            b"a > 5 AND b = 'x' OR NOT (c IS NULL)",
            b"a BETWEEN -1 AND 9.5 AND b NOT IN ('x', 'it''s') -- c\n AND /* d */ TRUE",
            b"((a = 7) = TRUE) IS NOT NULL AND c >= .5E1 AND a <> 9223372036854775807L",
        ],
    ),
    Target("properties.split", _split, [b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02", b"TAGS\x01\x02TAGS\x01\xe4\xb8\xad"]),
]
