"""Trace records as messages, as many in one as are readable by everybody. Pure.

Rule 1: the keys of the message are the ids and keys of the messages it tells of, each once: that is what traces are
        found by.
Rule 2: a message takes records until its text has `TEXT_CHARACTERS_MAX` characters, as Apache's do, or until its
        keys have `KEYS_BYTES_MAX` bytes, for properties can hold no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from skyrocketmq.model import Message
from skyrocketmq.model import properties as names
from skyrocketmq.wire.trace import TraceRecord, encode_trace

__all__ = ["pack_traces"]

TEXT_CHARACTERS_MAX: Final = 118_000
KEYS_BYTES_MAX: Final = 30_000  # of 32,767 for all properties


def pack_traces(records: Iterable[TraceRecord], *, topic: str) -> Iterator[tuple[Message, int]]:
    """Messages with all records, in their order; with each, how many are in it."""
    parts: list[bytes] = []
    keys: dict[str, None] = {}
    text_bytes = keys_bytes = 0
    for record in records:
        part = encode_trace([record])
        new_keys = [key for key in _keys_of(record) if key not in keys]
        new_bytes = sum(len(key.encode("utf-8", "replace")) + 1 for key in new_keys)
        if parts and (text_bytes + len(part) > TEXT_CHARACTERS_MAX or keys_bytes + new_bytes > KEYS_BYTES_MAX):
            yield Message(topic, b"".join(parts), keys=list(keys)), len(parts)
            parts, keys, text_bytes, keys_bytes = [], {}, 0, 0
            new_keys = list(dict.fromkeys(_keys_of(record)))
        for key in new_keys:
            size = len(key.encode("utf-8", "replace")) + 1
            if keys_bytes + size > KEYS_BYTES_MAX:
                break  # a message with so many keys is found by the first of them, and by its id
            keys[key] = None
            keys_bytes += size
        parts.append(part)
        text_bytes += len(part)
    if parts:
        yield Message(topic, b"".join(parts), keys=list(keys)), len(parts)


def _keys_of(record: TraceRecord) -> list[str]:
    """What the trace is to be found by: the message's id first, then its keys."""
    return [key for key in (record.msg_id, *(record.keys or "").split(names.KEY_SEPARATOR)) if key]
