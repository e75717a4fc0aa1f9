"""The body of SEND_BATCH_MESSAGE: several messages for one queue, one after the other.

`hot.layout` draws an entry, `hot.batches` reads it. Entries travel as tuples (flag, body, properties), because a batch
may hold thousands and the store turns each into a record at once. Whether they may travel together (one topic, no
delay) the producer checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, TypeAlias

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.hot import decode_batch
from skyrocketmq.hot.layout import BATCH_ENTRY_BYTES_MIN as ENTRY_BYTES_MIN
from skyrocketmq.hot.layout import BATCH_HEAD_BYTES, BATCH_HEAD_FORMAT, BATCH_PROPERTIES_LENGTH_BYTES
from skyrocketmq.wire.properties import PROPERTIES_BYTES_MAX

__all__ = ["ENTRY_BYTES_MIN", "BatchEntry", "decode_batch", "encode_batch"]

HEAD: Final = Struct(BATCH_HEAD_FORMAT)
assert HEAD.size == BATCH_HEAD_BYTES
assert ENTRY_BYTES_MIN == BATCH_HEAD_BYTES + BATCH_PROPERTIES_LENGTH_BYTES

BatchEntry: TypeAlias = tuple[int, bytes, bytes]
"""(flag, body, properties as text)"""


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """The body of a batch request. Raises `IllegalArgument` for properties that no record could hold."""
    parts: list[bytes] = []
    for flag, body, properties in entries:
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise IllegalArgument(
                f"the properties take {len(properties)} bytes, a message can carry {PROPERTIES_BYTES_MAX}"
            )
        total = ENTRY_BYTES_MIN + len(body) + len(properties)
        parts += (HEAD.pack(total, 0, 0, flag, len(body)), body, len(properties).to_bytes(2, "big"), properties)
    return b"".join(parts)
