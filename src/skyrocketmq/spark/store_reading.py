"""Parts of a store's files as batches of messages: what a reading task does.

A hot module. Of a part of the log, pieces are read in order and one walk over sizes finds the records; of a part of a
queue, its cells say where they are and no walk is needed. All else is done by `columns`.

Rule 1: every record is checked before it is shown: that it stands where it says, that its parts add up, and, unless
the reader was told otherwise, that its body has its checksum. What fails is an error that names the record; told to go
on without what is lost, a task steps over it.
Rule 2: memory is bounded, whatever the part: a piece (`PIECE_BYTES`, or one message), and the columns of its messages.
Rule 3: files are read, not mapped: a broker that cuts a file short under a map would kill the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skyrocketmq.errors import CorruptRecord, StoreError
from skyrocketmq.ports import LocalDisk
from skyrocketmq.spark.columns import Choose, Records, TooLarge, columns_of
from skyrocketmq.spark.filters import Interval, Narrowing
from skyrocketmq.spark.store_options import StoreOptions
from skyrocketmq.spark.store_planning import LogPart, QueuePart
from skyrocketmq.store.commit_log import LogFile
from skyrocketmq.store.log_scan import LogScan
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.wire.records import BLANK, BLANK_BYTES, BLANK_MAGIC, RECORD_BYTES_MIN

__all__ = ["CELLS", "FewFiles", "MessageReader", "walk_piece"]

PIECE_BYTES: Final = 4 << 20
BATCH_ROWS: Final = 8192
CELL_ROWS: Final = 4096
GAP_BYTES: Final = 4 << 10  # between two messages of a queue; what lies in a smaller one is read along
CELLS: Final = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert CELLS.itemsize == 20

_size_at = Struct(">i").unpack_from


class FewFiles:
    """Files that a task has open, and the log's among them as a scan wants it."""

    def __init__(self, log_files: Sequence[tuple[int, Path]], file_bytes: int) -> None:
        self._disk = LocalDisk(threads=1)
        self.open_files = OpenFiles(self._disk, count_max=8, writable=False)
        self.files = [LogFile(start, path) for start, path in log_files]
        self.file_bytes = file_bytes
        self._paths = {file.start: file.path for file in self.files}

    def read_log(self, log_offset: int, length: int) -> bytes:
        """So many bytes of one log file, or fewer at its end."""
        start = log_offset - log_offset % self.file_bytes
        if start not in self._paths:
            raise CorruptRecord(f"the log has no file for log offset {log_offset}: it was deleted")
        return self.read(self._paths[start], log_offset - start, length)

    def read(self, path: Path, position: int, length: int) -> bytes:
        try:
            return self.open_files.get(path).pread(length, position)
        except FileNotFoundError as error:
            raise StoreError(f"{path} was deleted after the read was planned: run the query again") from error

    def close(self) -> None:
        self.open_files.close()
        self._disk.close()


class MessageReader:
    """Reads messages for one task, as the options and the filters want them."""

    def __init__(self, options: StoreOptions, columns: Sequence[str], narrowing: Narrowing) -> None:
        self._options = options
        self._columns = columns
        self._narrowing = narrowing

    def of_log(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        """The messages of a part of the log."""
        with ExitStack() as opened:
            files = FewFiles([(part.file_start, part.path)], part.file_bytes)
            opened.callback(files.close)
            at = done = part.start
            while at < part.end:
                try:
                    data, starts, after = _next_piece(files, part, at)
                    for count, batch in self._batches(data, np.asarray(starts, np.int64), at, part.path):
                        yield batch
                        done = at + starts[count] if count < len(starts) else after
                except CorruptRecord:
                    if self._options.fail_on_data_loss:
                        raise
                    yield from self._good_ones(files, part, done)
                    return
                at = done = after

    def of_queue(self, part: QueuePart) -> Iterator[pa.RecordBatch]:
        """The messages that a part of a queue leads to."""
        with ExitStack() as opened:
            files = FewFiles(part.log_files, part.log_file_bytes)
            opened.callback(files.close)
            for first, cells in cells_of(files, part):
                expected = _Expected(part.topic, part.queue_id, first, cells)
                for begin, end in _shares(cells):
                    where = part.queue_files[0][1].parent
                    yield from self._of_cells(files, cells[begin:end], where, expected.slice(begin, end))

    def _good_ones(self, files: FewFiles, part: LogPart, at: int) -> Iterator[pa.RecordBatch]:
        """The rest of a part without what is damaged in it."""
        scan = LogScan(files, at, check_crc=self._options.check_bodies, trusted_end=part.end, stop=part.end)
        records = scan.records()
        while chunk := [(record[4], record[0]) for record in islice(records, CELL_ROWS)]:
            cells = np.zeros(len(chunk), CELLS)
            cells["log_offset"], cells["size"] = zip(*chunk, strict=True)
            for begin, end in _shares(cells):
                yield from self._of_cells(files, cells[begin:end], part.path)

    def _of_cells(
        self, files: FewFiles, cells: NDArray[np.void], where: Path, expected: _Expected | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The messages that cells lead to; those of a queue are `expected` to be its own."""
        done = 0
        try:
            data, starts = _gather(files, cells)
            for count, batch in self._batches(data, starts, cells["log_offset"], where, expected):
                yield batch
                done = count
        except CorruptRecord as error:
            if self._options.fail_on_data_loss:
                raise CorruptRecord(f"{error}; the queue {expected} leads to it" if expected else error) from error
            if len(cells) - done > 1:  # halves, until what is damaged stands alone
                middle = (done + len(cells)) // 2
                for begin, end in ((done, middle), (middle, len(cells))):
                    yield from self._of_cells(files, cells[begin:end], where, expected and expected.slice(begin, end))

    def _batches(
        self,
        data: bytes,
        starts: NDArray[np.int64],
        log_offsets: int | NDArray[np.int64],
        where: Path,
        expected: _Expected | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The messages that begin at these places of the data, which stand at these log offsets of the log.

        A number is the log offset of the first byte, where the data is a piece of the log. Each batch comes with the
        number of places that are done after it.
        """
        offsets = starts + log_offsets if isinstance(log_offsets, int) else log_offsets.astype(np.int64)
        begin, count = 0, BATCH_ROWS
        while begin < len(starts):
            end = min(begin + count, len(starts))
            try:
                batch = columns_of(
                    data,
                    starts[begin:end],
                    broker=self._options.broker,
                    columns=self._columns,
                    origin=str(where),
                    choose=self._choose(offsets[begin:end], expected and expected.slice(begin, end)),
                )
            except TooLarge as error:
                count = error.count
                continue
            if batch.num_rows:
                yield end, batch
            begin = end

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
    """What the cells of a queue say of the records they lead to."""

    def __init__(self, topic: str, queue_id: int, first_offset: int, cells: NDArray[np.void]) -> None:
        self.cells = cells
        self._topic = topic
        self._queue_id = queue_id
        self._first_offset = first_offset

    def __str__(self) -> str:
        return f"{self._topic}-{self._queue_id}"

    def slice(self, begin: int, end: int) -> _Expected:
        return _Expected(self._topic, self._queue_id, self._first_offset + begin, self.cells[begin:end])

    def check(self, records: Records, rows: NDArray[np.int64]) -> None:
        heads = records.heads
        is_other = heads["queue_id"] != self._queue_id
        is_other |= heads["queue_offset"] != self._first_offset + rows
        is_other |= heads["total"] != self.cells["size"][rows]
        is_other |= ~_is_in(records.topics, {self._topic})
        records.refuse(is_other, "its queue has another message there")


# ---------------------------------------------------------------------------------------------------------- log pieces


def _next_piece(files: FewFiles, part: LogPart, at: int) -> tuple[bytes, list[int], int]:
    """Bytes of the log from `at` on, where the records in them begin, and where the next piece begins."""
    file_end = part.file_start + part.file_bytes
    data = files.read_log(at, min(PIECE_BYTES, part.end - at))
    starts, used = walk_piece(data)
    if starts and not (at + used == file_end and _is_blank(data, starts[-1], file_end - at)):
        return data, starts, at + used
    if starts:  # the blank that fills up the file looks like a record by its size
        starts.pop()
        return data, starts, file_end
    if _is_blank(data, 0, file_end - at):
        return b"", [], file_end
    total = _size_at(data)[0] if len(data) >= 4 else 0
    if PIECE_BYTES < total <= part.end - at:
        data = files.read_log(at, total)
        if len(data) == total:
            return data, [0], at + total
    raise CorruptRecord(
        f"no record begins at log offset {at}, where one is due: the log is damaged in {part.path}, at byte "
        f"{at - part.file_start}. What is there shows option table=damage; failOnDataLoss=false reads what is behind it"
    )


def walk_piece(data: bytes) -> tuple[list[int], int]:
    """Where the records begin that lie in these bytes whole, by the sizes alone, and where the last of them ends.

    The one step a message takes in Python, but for its checksum.
    """
    starts: list[int] = []
    append = starts.append
    size_at, at, stop = _size_at, 0, len(data)
    last = stop - RECORD_BYTES_MIN
    while at <= last:
        total = size_at(data, at)[0]
        if total < RECORD_BYTES_MIN or total > stop - at:
            break
        append(at)
        at += total
    return starts, at


def _is_blank(data: bytes, at: int, left: int) -> bool:
    """Whether the record that fills up a file begins here; `left` is how far the file's end is from the first byte."""
    return len(data) >= at + BLANK_BYTES and BLANK.unpack_from(data, at) == (left - at, BLANK_MAGIC)


# ---------------------------------------------------------------------------------------------------------------- cells


def cells_of(files: FewFiles, part: QueuePart) -> Iterator[tuple[int, NDArray[np.void]]]:
    """The cells of a part, some thousands at a time, each with the offset of the first."""
    paths = dict(part.queue_files)
    at = part.start
    while at < part.end:
        file_start = at * CELLS.itemsize // part.queue_file_bytes * part.queue_file_bytes
        in_file = (file_start + part.queue_file_bytes) // CELLS.itemsize - at
        count = min(CELL_ROWS, part.end - at, in_file)
        name = f"{part.topic}-{part.queue_id}"
        if file_start not in paths:
            raise StoreError(f"queue {name} has no file for offset {at}: it was deleted")
        data = files.read(paths[file_start], at * CELLS.itemsize - file_start, count * CELLS.itemsize)
        cells = np.frombuffer(data, CELLS, len(data) // CELLS.itemsize)
        if len(cells) < count:
            raise StoreError(f"{paths[file_start]} ends before offset {at + count} of queue {name}")
        yield at, cells
        at += count


def _shares(cells: NDArray[np.void]) -> Iterator[tuple[int, int]]:
    """Cells whose messages make up a piece, from and to."""
    ends = np.cumsum(np.minimum(cells["size"].astype(np.int64), PIECE_BYTES) + GAP_BYTES // 2)
    begin = 0
    while begin < len(cells):
        base = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, base + PIECE_BYTES, side="right")), begin + 1)
        yield begin, end
        begin = end


def _gather(files: FewFiles, cells: NDArray[np.void]) -> tuple[bytes, NDArray[np.int64]]:
    """The records that cells lead to, and where each begins in the bytes. Neighbours are read together."""
    begins, sizes = cells["log_offset"].astype(np.int64), cells["size"].astype(np.int64)
    if (sizes < RECORD_BYTES_MIN).any() or (begins < 0).any() or (sizes > files.file_bytes).any():
        row = int(np.argmax((sizes < RECORD_BYTES_MIN) | (begins < 0) | (sizes > files.file_bytes)))
        raise CorruptRecord(f"a place of the queue is damaged: log offset {begins[row]}, {sizes[row]} bytes")
    gaps = begins[1:] - (begins[:-1] + sizes[:-1])
    crosses = begins[1:] // files.file_bytes != begins[:-1] // files.file_bytes
    heads = np.concatenate([[0], np.flatnonzero((gaps < 0) | (gaps > GAP_BYTES) | crosses) + 1, [len(cells)]])
    parts: list[bytes] = []
    starts = np.empty(len(cells), np.int64)
    size = 0
    for first, after in zip(heads[:-1].tolist(), heads[1:].tolist(), strict=True):
        begin, end = int(begins[first]), int(begins[after - 1] + sizes[after - 1])
        data = files.read_log(begin, end - begin)
        if len(data) < end - begin:
            raise CorruptRecord(f"the log ends within the message at log offset {int(begins[after - 1])}")
        parts.append(data)
        starts[first:after] = begins[first:after] - begin + size
        size += len(data)
    return (parts[0] if len(parts) == 1 else b"".join(parts)), starts


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
