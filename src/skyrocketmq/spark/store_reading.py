"""Parts of a store's files as batches of messages: what a reading task does.

A hot module. Of a part of the log, pieces are read in order and one walk over sizes finds the records; of parts of
queues, cells say where they are (`store_cells`) and no walk is needed. All else is done by `columns`.

Rule 1: every record is checked before it is shown: that it stands where it says, that its parts add up, and, unless
the reader was told otherwise, that its body has its checksum. What fails is an error that names the record; told to go
on without what is lost, a task steps over it.
Rule 2: memory is bounded, whatever the part: a piece (`PIECE_BYTES`, or one message), and the columns of one batch of
its messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skyrocketmq.errors import CorruptRecord
from skyrocketmq.spark.columns import Choose, Records, TooLarge, columns_of
from skyrocketmq.spark.filters import Interval, Narrowing
from skyrocketmq.spark.record_places import places_of_records
from skyrocketmq.spark.store_cells import PIECE_BYTES, Cells, FewFiles, gather, merged_cells, shares
from skyrocketmq.spark.store_options import StoreOptions
from skyrocketmq.spark.store_planning import LogPart, TopicPart
from skyrocketmq.store.log_scan import LogScan
from skyrocketmq.wire.records import BLANK_BYTES, BLANK_MAGIC, sizes_at

__all__ = ["MessageReader"]

BATCH_ROWS: Final = 8192
SCAN_ROWS: Final = 4096

_size_at = Struct(">i").unpack_from


class MessageReader:
    """Reads messages for one task, as the options and the filters want them."""

    def __init__(self, options: StoreOptions, columns: Sequence[str], narrowing: Narrowing) -> None:
        self._options = options
        self._columns = columns
        self._narrowing = narrowing

    def of_log(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        """The messages of a part of the log."""
        with closing(FewFiles([(part.file_start, part.path)], part.file_bytes)) as files:
            at = done = part.start
            while at < part.end:
                try:
                    data, places, after = _next_piece(files, part, at)
                    for count, batch in self._batches(data, places, at + places, part.path):
                        yield batch
                        done = at + int(places[count]) if count < len(places) else after
                except CorruptRecord:
                    if self._options.fail_on_data_loss:
                        raise
                    yield from self._good_ones(files, part, done)
                    return
                at = done = after

    def of_topic(self, part: TopicPart) -> Iterator[pa.RecordBatch]:
        """The messages that parts of a topic's queues lead to, in the order of the log."""
        with closing(FewFiles(part.log_files, part.log_file_bytes)) as files:
            for cells in merged_cells(files, part.queues):
                for share in shares(cells, file_bytes=files.file_bytes):
                    yield from self._of_cells(files, cells.pick(share), part.where, part.topic)

    def _good_ones(self, files: FewFiles, part: LogPart, at: int) -> Iterator[pa.RecordBatch]:
        """The rest of a part without what is damaged in it."""
        scan = LogScan(files, at, check_crc=self._options.check_bodies, trusted_end=part.end, stop=part.end)
        records = scan.records()
        while found := [(record.log_offset, record.total_bytes) for record in islice(records, SCAN_ROWS)]:
            offsets, sizes = np.asarray(found, np.int64).T
            nothing = np.zeros(len(found), np.int64)
            cells = Cells(nothing, nothing, offsets, sizes)
            for share in shares(cells, file_bytes=files.file_bytes):
                yield from self._of_cells(files, cells.pick(share), part.path)

    def _of_cells(
        self, files: FewFiles, cells: Cells, where: Path, topic: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The messages that cells lead to; where a topic is given, its queues have these cells."""
        done = 0
        try:
            data, starts = gather(files, cells)
            expected = None if topic is None else _Expected(topic.encode(), cells)
            for count, batch in self._batches(data, starts, cells.log_offsets, where, expected):
                yield batch
                done = count
        except CorruptRecord as error:
            if self._options.fail_on_data_loss:
                raise CorruptRecord(f"{error}; a queue of {topic} leads to it" if topic else error) from error
            if len(cells) - done > 1:  # halves, until what is damaged stands alone
                middle = (done + len(cells)) // 2
                for rows in (slice(done, middle), slice(middle, len(cells))):
                    yield from self._of_cells(files, cells.pick(rows), where, topic)

    def _batches(
        self,
        data: bytes,
        starts: NDArray[np.int64],
        offsets: NDArray[np.int64],
        where: Path,
        expected: _Expected | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The messages that begin at these places of the data and stand at these offsets of the log.

        Each batch comes with the number of places that are done after it.
        """
        begin, count = 0, BATCH_ROWS
        while begin < len(starts):
            rows = slice(begin, min(begin + count, len(starts)))
            try:
                batch = columns_of(
                    data,
                    starts[rows],
                    broker=self._options.broker,
                    columns=self._columns,
                    origin=str(where),
                    choose=self._choose(offsets[rows], expected and expected.pick(rows)),
                )
            except TooLarge as error:
                count = error.count
                continue
            if batch.num_rows:
                yield rows.stop, batch
            begin = rows.stop

    def _choose(self, offsets: NDArray[np.int64], expected: _Expected | None) -> Choose:
        narrowing = self._narrowing

        def choose(records: Records, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            heads = records.heads
            records.refuse(heads["log_offset"] != offsets[rows], "it stands at another place than it says")
            if expected is not None:
                expected.check(records, rows)
            if self._options.check_bodies:
                records.refuse_other_bodies()
            is_wanted = _within(heads["queue_id"], narrowing.queue_ids)
            is_wanted &= _within(heads["queue_offset"], narrowing.offsets)
            is_wanted &= _within(heads["store_ms"], narrowing.store_ms)
            if narrowing.topics is not None:
                is_wanted &= _is_in(records.topics, narrowing.topics)
            if narrowing.tags is not None:
                is_wanted &= _is_in(records.tags, narrowing.tags)
            return is_wanted

        return choose


class _Expected:
    """What the cells of queues say of the records they lead to."""

    def __init__(self, topic: bytes, cells: Cells) -> None:
        self._topic = topic
        self._cells = cells

    def pick(self, rows: slice) -> _Expected:
        return _Expected(self._topic, self._cells.pick(rows))

    def check(self, records: Records, rows: NDArray[np.int64]) -> None:
        heads, cells = records.heads, self._cells.pick(rows)
        is_other = heads["queue_id"] != cells.queue_ids
        is_other |= heads["queue_offset"] != cells.queue_offsets
        is_other |= heads["total_bytes"] != cells.sizes
        is_other |= ~records.are_of(self._topic)
        records.refuse(is_other, "its queue has another message there")


# ---------------------------------------------------------------------------------------------------------- log pieces


def _next_piece(files: FewFiles, part: LogPart, at: int) -> tuple[bytes, NDArray[np.int64], int]:
    """Bytes of the log from `at` on, where the records in them begin, and where the next piece begins."""
    file_end = part.file_start + part.file_bytes
    data = files.read_log(at, min(PIECE_BYTES, part.end - at))
    places, used = places_of_records(data)
    if len(places) and not (at + used == file_end and _is_blank(data, int(places[-1]), file_end - at)):
        return data, places, at + used
    if len(places):  # the blank that fills up the file looks like a record by its size
        return data, places[:-1], file_end
    if _is_blank(data, 0, file_end - at):
        return b"", places, file_end
    total = _size_at(data)[0] if len(data) >= 4 else 0
    if PIECE_BYTES < total <= part.end - at:
        data = files.read_log(at, total)
        if len(data) == total:
            return data, np.zeros(1, np.int64), at + total
    raise CorruptRecord(
        f"no record begins at log offset {at}, where one is due: the log is damaged in {part.path}, at byte "
        f"{at - part.file_start}. What is there shows option table=damage; failOnDataLoss=false reads what is behind it"
    )


def _is_blank(data: bytes, at: int, left: int) -> bool:
    """Whether the record that fills up a file begins here; `left` is how far the file's end is from the first byte."""
    return len(data) >= at + BLANK_BYTES and sizes_at(data, at) == (left - at, BLANK_MAGIC)


def _within(values: NDArray[Any], wanted: Interval) -> NDArray[np.bool_]:
    is_in = np.ones(len(values), np.bool_)
    if wanted.low is not None:
        is_in &= values >= wanted.low
    if wanted.high is not None:
        is_in &= values <= wanted.high
    return is_in


def _is_in(texts: pa.Array, wanted: frozenset[str] | set[str]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_in(texts, value_set=pa.array(sorted(wanted), pa.string())).to_numpy(
        zero_copy_only=False
    )
    return found
