"""The tables of a store besides its messages: cells of queues, entries of the index, and what is broken.

Rows are what the files hold, bytes to columns by numpy; nothing is looked up in the log. Only `damage` reads it, record
by record, because it has to find where the next good one begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skyrocketmq.hot.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SLOT_BYTES
from skyrocketmq.spark.columns import SCHEMA as MESSAGES
from skyrocketmq.spark.filters import Narrowing
from skyrocketmq.spark.store_cells import FewFiles, cells_of
from skyrocketmq.spark.store_planning import IndexPart, LogPart, QueuePart
from skyrocketmq.store.index_file import HEADER
from skyrocketmq.store.log_scan import LogScan

__all__ = ["SCHEMAS", "DamageRow", "damage_batch", "damage_of", "read_cells", "read_entries"]

_TIME: Final = pa.timestamp("us", tz="UTC")
SCHEMAS: Final[dict[str, pa.Schema]] = {
    "messages": MESSAGES,
    "queues": pa.schema(
        [
            ("topic", pa.string()),
            ("queue_id", pa.int32()),
            ("queue_offset", pa.int64()),
            ("log_offset", pa.int64()),
            ("record_bytes", pa.int32()),
            ("tags_code", pa.int64()),
        ]
    ),
    "index": pa.schema(
        [
            ("file", pa.string()),
            ("entry", pa.int32()),
            ("key_hash", pa.int32()),
            ("log_offset", pa.int64()),
            ("store_timestamp", _TIME),
            ("previous", pa.int32()),
        ]
    ),
    "damage": pa.schema(
        [
            ("part", pa.string()),
            ("place", pa.string()),
            ("begin_offset", pa.int64()),
            ("end_offset", pa.int64()),
            ("what", pa.string()),
            ("is_damage", pa.bool_()),
        ]
    ),
}
DamageRow = tuple[str, str, int, int, str, bool]

ENTRY_ROWS: Final = 8192
_ENTRIES: Final = np.dtype([("key_hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
assert _ENTRIES.itemsize == INDEX_ENTRY_BYTES


def read_cells(part: QueuePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The cells of a part of a queue, as they stand in its files."""
    with closing(FewFiles((), part.log_file_bytes)) as files:
        for first, cells in cells_of(files, part):
            yield _batch(
                "queues",
                columns,
                topic=pa.repeat(pa.scalar(part.topic, pa.string()), len(cells)),
                queue_id=pa.repeat(pa.scalar(part.queue_id, pa.int32()), len(cells)),
                queue_offset=pa.array(np.arange(first, first + len(cells), dtype=np.int64)),
                log_offset=pa.array(cells["log_offset"].astype(np.int64)),
                record_bytes=pa.array(cells["size"].astype(np.int32)),
                tags_code=pa.array(cells["tags_code"].astype(np.int64)),
            )


def read_entries(part: IndexPart, columns: Sequence[str], narrowing: Narrowing) -> Iterator[pa.RecordBatch]:
    """The entries of a part of an index file that lead to messages of the planned log."""
    entries_at = INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * part.slot_count
    with closing(FewFiles((), 1)) as files:
        begin_ms = HEADER.unpack(files.read(part.path, 0, INDEX_HEADER_BYTES))[0]
        for number in range(part.start, part.end, ENTRY_ROWS):
            count = min(ENTRY_ROWS, part.end - number)
            data = files.read(part.path, entries_at + number * INDEX_ENTRY_BYTES, count * INDEX_ENTRY_BYTES)
            entries = np.frombuffer(data, _ENTRIES, len(data) // INDEX_ENTRY_BYTES)
            numbers = np.arange(number, number + len(entries), dtype=np.int32)
            # A broker at work counts an entry before it is on its way to the file; nothing but zeros is there then.
            is_there = (entries["log_offset"] < part.log_end) & (
                (entries["key_hash"] != 0) | (entries["log_offset"] != 0) | (entries["previous"] != 0)
            )
            entries, numbers = entries[is_there], numbers[is_there]
            stored_ms = begin_ms + entries["seconds"].astype(np.int64) * 1000
            yield _batch(
                "index",
                columns,
                file=pa.repeat(pa.scalar(part.path.name, pa.string()), len(entries)),
                entry=pa.array(numbers),
                key_hash=pa.array(entries["key_hash"].astype(np.int32)),
                log_offset=pa.array(entries["log_offset"].astype(np.int64)),
                store_timestamp=pa.array(stored_ms * 1000).cast(_TIME),
                previous=pa.array(entries["previous"].astype(np.int32)),
            )


def damage_of(part: LogPart) -> Iterator[DamageRow]:
    """The stretches of a part of the log that hold no good record."""
    with closing(FewFiles([(part.file_start, part.path)], part.file_bytes)) as files:
        scan = LogScan(files, part.start, check_crc=True, trusted_end=part.end, stop=part.end)
        for _ in scan.records():
            pass
    for begin, end in scan.bad:
        what = f"{end - begin} bytes hold no good record: what was there is lost"
        yield "log", part.path.name, begin, end, what, True
    if scan.end < part.end and not scan.bad:
        yield "log", part.path.name, scan.end, part.end, "the file ends here", True


def damage_batch(rows: Sequence[DamageRow], columns: Sequence[str]) -> pa.RecordBatch:
    schema = SCHEMAS["damage"]
    values = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = {field.name: pa.array(list(column), field.type) for field, column in zip(schema, values, strict=True)}
    return _batch("damage", columns, **arrays)


def _batch(table: str, columns: Sequence[str], **arrays: Any) -> pa.RecordBatch:
    schema = pa.schema([SCHEMAS[table].field(name) for name in columns])
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], schema=schema)
