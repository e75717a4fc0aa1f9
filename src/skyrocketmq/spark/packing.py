"""Rows to the entries of batch requests: many become bytes together, without a Python step for each of them.

A hot module. It knows the common columns, `body`, `tags` and `keys`; what it makes of a row is what the client makes
of the message (a test compares them). Rule: rows it cannot be sure of, it does not take (`pack_rows` says None). They
go the general way, one by one, where a row that cannot be a message is named.

The layout of an entry is that of `wire.batches`; its properties are an id that no other message has, and the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skyrocketmq.client.outgoing import MESSAGE_BYTES_MAX
from skyrocketmq.wire.batches import ENTRY_BYTES_MIN
from skyrocketmq.wire.ids import UniqueIdGenerator
from skyrocketmq.wire.properties import PROPERTIES_BYTES_MAX

__all__ = ["COLUMNS", "PackedRows", "pack_rows", "split_by_size"]

COLUMNS: Final = frozenset({"body", "tags", "keys"})
IDS_AT_ONCE_MAX: Final = 32_768  # half of what an id can count within a millisecond
BYTES_AT_ONCE_MAX: Final = 1 << 30  # a column of Arrow's holds twice as much
_BLANK: Final = "[\\s\\p{Z}\\x1c-\\x1f\\x{85}]"
_FORBIDDEN: Final = f"[\\x01\\x02]|^{_BLANK}*$"  # what separates properties, and nothing but blanks
_NOT_IN_KEY: Final = f"[\\x01\\x02]|^$|{_BLANK}"
_NOT_IN_KEYS: Final = f"{_FORBIDDEN}|{_BLANK}{{2}}|^{_BLANK}|{_BLANK}$"
_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_HEAD: Final = np.dtype([("total", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body_bytes", ">i4")])
_ID_BEFORE: Final = b"UNIQ_KEY\x01"
_ID_AFTER: Final = b"\x02WAIT\x01true"


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Entries one after the other, and where each begins; the last place is where the last one ends."""

    data: memoryview
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places) - 1


def split_by_size(batch: pa.RecordBatch, large_bytes: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows with bodies below a size, and the others."""
    body_bytes = pc.binary_length(batch.column("body"))
    if (pc.max(body_bytes).as_py() or 0) < large_bytes:
        return batch, batch.slice(0, 0)
    is_large = pc.fill_null(pc.greater_equal(body_bytes, large_bytes), False)
    return batch.filter(pc.invert(is_large)), batch.filter(is_large)


def pack_rows(batch: pa.RecordBatch, ids: UniqueIdGenerator, *, now_ms: int) -> PackedRows | None:
    """The entries of the rows, or None if there is one among them that may not be a message."""
    bodies = batch.column("body")
    if not 0 < len(bodies) <= IDS_AT_ONCE_MAX or bodies.null_count:
        return None
    body_bytes = pc.binary_length(bodies).to_numpy().astype(np.int64)
    if not 0 < body_bytes.min() <= body_bytes.max() <= MESSAGE_BYTES_MAX or body_bytes.sum() > BYTES_AT_ONCE_MAX:
        return None
    texts = _more_properties(batch)
    if texts is None:
        return None
    id_columns = _id_properties(*ids.take_ids(now_ms, len(bodies)))
    properties_bytes = np.full(len(bodies), id_columns.shape[1], np.int64)
    for text in texts:
        properties_bytes += pc.binary_length(text).to_numpy()
    if properties_bytes.max() > PROPERTIES_BYTES_MAX:
        return None
    heads = np.zeros(len(bodies), _HEAD)
    heads["total"] = ENTRY_BYTES_MIN + body_bytes + properties_bytes
    heads["body_bytes"] = body_bytes
    tails = np.empty((len(bodies), 2 + id_columns.shape[1]), np.uint8)
    tails[:, :2] = properties_bytes.astype(">i2").view(np.uint8).reshape(-1, 2)
    tails[:, 2:] = id_columns
    entries = pc.binary_join_element_wise(_fixed(heads), bodies.cast(pa.binary()), _fixed(tails), *texts, b"")
    _, places, data = entries.buffers()
    return PackedRows(memoryview(data), np.frombuffer(places, np.int32, len(entries) + 1).astype(np.int64))


def _more_properties(batch: pa.RecordBatch) -> list[pa.Array] | None:
    """The texts of tags and keys behind the id, empty where a row has none; None if one of them cannot be."""
    found: list[pa.Array] = []
    if "tags" in batch.schema.names:
        tags = batch.column("tags")
        tags = pc.if_else(pc.equal(pc.fill_null(tags, ""), ""), pa.scalar(None, pa.string()), tags)
        if _any_matches(tags, _FORBIDDEN):
            return None
        found.append(_property("TAGS", tags))
    if "keys" in batch.schema.names:
        keys = batch.column("keys")
        if pa.types.is_list(keys.type):
            each = keys.flatten()
            if each.null_count or _any_matches(each, _NOT_IN_KEY):
                return None
            keys = pc.binary_join(keys, " ")
        keys = pc.if_else(pc.equal(pc.fill_null(keys, ""), ""), pa.scalar(None, pa.string()), keys)
        if _any_matches(keys, _NOT_IN_KEYS):
            return None
        found.append(_property("KEYS", keys))
    return found


def _any_matches(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _property(name: str, values: pa.Array) -> pa.Array:
    joined = pc.binary_join_element_wise(f"\x02{name}\x01", values, "")  # null where a value is
    return pc.fill_null(joined, "").cast(pa.binary())


def _id_properties(head: str, counted: list[int]) -> NDArray[np.uint8]:
    """The beginning of the properties, which is of one length in all rows."""
    numbers = np.asarray(counted, np.int64)
    before = np.frombuffer(_ID_BEFORE + head.encode(), np.uint8)
    after = np.frombuffer(_ID_AFTER, np.uint8)
    text = np.empty((len(numbers), len(before) + 4 + len(after)), np.uint8)
    text[:, : len(before)] = before
    for digit in range(4):
        text[:, len(before) + digit] = _HEX[(numbers >> 4 * (3 - digit)) & 15]
    text[:, len(before) + 4 :] = after
    return text


def _fixed(rows: NDArray[np.void] | NDArray[np.uint8]) -> pa.Array:
    """Rows of equal length as a column."""
    width = rows.nbytes // len(rows)
    places = np.arange(len(rows) + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(
        pa.binary(), len(rows), [None, pa.py_buffer(places), pa.py_buffer(np.ascontiguousarray(rows))]
    )
