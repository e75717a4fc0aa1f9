"""Cells of consume queues, and the bytes of the records that they lead to.

A hot module. The cells of all queues of a topic are put in the order of the log, so that a topic that fills it is read
in large pieces, whatever the number of its queues; of a topic that is rare in it, single records are read.

Rule 1: every cell of a part comes exactly once, also if damage has put cells out of order.
Rule 2: memory is bounded: some ten thousand cells, and the bytes of one share of them.
Rule 3: files are read, not mapped: a broker that cuts a file short under a map would kill the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skyrocketmq.errors import CorruptRecord, StoreError
from skyrocketmq.ports import LocalDisk
from skyrocketmq.spark.store_planning import QueuePart
from skyrocketmq.store.commit_log import LogFile
from skyrocketmq.store.consume_queue import FILLER_SIZE
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.wire.records import RECORD_BYTES_MIN

__all__ = ["CELLS", "Cells", "FewFiles", "cells_of", "gather", "merged_cells", "shares"]

PIECE_BYTES: Final = 2 << 20  # what fits into a core's cache is not fetched again for each column
CELL_ROWS: Final = 4096
MERGED_ROWS: Final = 32_768
MERGED_ROWS_MIN: Final = 256  # of one queue
GAP_BYTES: Final = 16 << 10  # between two messages; reading what lies in a smaller one takes less than another read
CELLS: Final = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert CELLS.itemsize == 20

_EVERYTHING: Final = np.iinfo(np.int64).max


class FewFiles:
    """Files that a task has open, and the log's among them as a scan wants it."""

    def __init__(self, log_files: Sequence[tuple[int, Path]], file_bytes: int) -> None:
        self._disk = LocalDisk(threads=1)
        self.open_files = OpenFiles(self._disk, count_max=32, writable=False)
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


@dataclass(frozen=True, slots=True)
class Cells:
    """Places of a topic's queues, and what stands there, as columns."""

    queue_ids: NDArray[np.int64]
    queue_offsets: NDArray[np.int64]
    log_offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sizes)

    def pick(self, rows: slice | NDArray[np.int64]) -> Cells:
        return Cells(self.queue_ids[rows], self.queue_offsets[rows], self.log_offsets[rows], self.sizes[rows])


def cells_of(files: FewFiles, part: QueuePart, *, rows_max: int = CELL_ROWS) -> Iterator[tuple[int, NDArray[np.void]]]:
    """The cells of a part, some thousands at a time, each with the offset of the first."""
    paths = dict(part.queue_files)
    at = part.start
    while at < part.end:
        file_start = at * CELLS.itemsize // part.queue_file_bytes * part.queue_file_bytes
        in_file = (file_start + part.queue_file_bytes) // CELLS.itemsize - at
        count = min(rows_max, part.end - at, in_file)
        name = f"{part.topic}-{part.queue_id}"
        if file_start not in paths:
            raise StoreError(f"queue {name} has no file for offset {at}: it was deleted")
        data = files.read(paths[file_start], at * CELLS.itemsize - file_start, count * CELLS.itemsize)
        cells = np.frombuffer(data, CELLS, len(data) // CELLS.itemsize)
        if len(cells) < count:
            raise StoreError(f"{paths[file_start]} ends before offset {at + count} of queue {name}")
        yield at, cells
        at += count


def merged_cells(files: FewFiles, parts: Sequence[QueuePart]) -> Iterator[Cells]:
    """The cells of parts of several queues in the order of the log, some ten thousand at a time."""
    rows_max = max(MERGED_ROWS // max(len(parts), 1), MERGED_ROWS_MIN)
    queues = [_Queue(files, part, rows_max) for part in parts]
    while waiting := [queue for queue in queues if queue.fill()]:
        limit = min(queue.reach for queue in waiting)  # behind it there may be cells that were not read yet
        taken = [queue.take(limit) for queue in waiting]
        columns = zip(*((one.queue_ids, one.queue_offsets, one.log_offsets, one.sizes) for one in taken), strict=True)
        cells = Cells(*map(np.concatenate, columns))
        yield cells if len(taken) == 1 else cells.pick(np.argsort(cells.log_offsets, kind="stable"))


class _Queue:
    """The cells of one queue that have been read and not yet handed out."""

    def __init__(self, files: FewFiles, part: QueuePart, rows_max: int) -> None:
        self._part = part
        self._chunks = cells_of(files, part, rows_max=rows_max)
        self._left = _columns(part.queue_id, 0, np.empty(0, CELLS))
        self._at = part.start

    def fill(self) -> bool:
        """Have some cells; False if there are no more."""
        while not len(self._left):
            first, cells = next(self._chunks, (0, None))
            if cells is None:
                return False
            columns = _columns(self._part.queue_id, first, cells)
            self._left = columns.pick(np.flatnonzero(columns.sizes != FILLER_SIZE))  # numbers that nobody has
            self._at = first + len(cells)
            # As far as the log has been reached: in a damaged queue a cell may lead back.
            self._reached = np.maximum.accumulate(self._left.log_offsets)
        return True

    @property
    def reach(self) -> int:
        return int(self._reached[-1]) if self._at < self._part.end else _EVERYTHING

    def take(self, limit: int) -> Cells:
        count = int(np.searchsorted(self._reached, limit, side="right"))
        taken, self._left = self._left.pick(slice(count)), self._left.pick(slice(count, None))
        self._reached = self._reached[count:]
        return taken


def _columns(queue_id: int, first: int, cells: NDArray[np.void]) -> Cells:
    return Cells(
        np.full(len(cells), queue_id, np.int64),
        np.arange(first, first + len(cells), dtype=np.int64),
        cells["log_offset"].astype(np.int64),
        cells["size"].astype(np.int64),
    )


def shares(cells: Cells, *, file_bytes: int) -> Iterator[slice]:
    """Cells whose messages make up a piece."""
    gaps = np.zeros(len(cells), np.int64)
    gaps[1:] = np.where(_is_apart(cells, file_bytes), 0, cells.log_offsets[1:] - _ends(cells)[:-1])
    sizes = np.cumsum(np.clip(cells.sizes, 0, PIECE_BYTES) + gaps)
    begin = 0
    while begin < len(cells):
        base = int(sizes[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(sizes, base + PIECE_BYTES, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def gather(files: FewFiles, cells: Cells) -> tuple[bytes, NDArray[np.int64]]:
    """The records that cells lead to, and where each begins in the bytes. Neighbours are read together."""
    begins, sizes = cells.log_offsets, cells.sizes
    is_bad = (sizes < RECORD_BYTES_MIN) | (begins < 0) | (sizes > files.file_bytes)
    if is_bad.any():
        row = int(np.argmax(is_bad))
        raise CorruptRecord(
            f"place {cells.queue_offsets[row]} of queue {cells.queue_ids[row]} is damaged: log offset {begins[row]}, "
            f"{sizes[row]} bytes"
        )
    heads = np.concatenate([[0], np.flatnonzero(_is_apart(cells, files.file_bytes)) + 1, [len(cells)]])
    ends = _ends(cells)
    parts: list[bytes] = []
    starts = np.empty(len(cells), np.int64)
    size = 0
    for first, after in zip(heads[:-1].tolist(), heads[1:].tolist(), strict=True):
        begin, end = int(begins[first]), int(ends[after - 1])
        data = files.read_log(begin, end - begin)
        if len(data) < end - begin:
            raise CorruptRecord(f"the log ends within the message at log offset {int(begins[after - 1])}")
        parts.append(data)
        starts[first:after] = begins[first:after] - begin + size
        size += len(data)
    return (parts[0] if len(parts) == 1 else b"".join(parts)), starts


def _ends(cells: Cells) -> NDArray[np.int64]:
    return cells.log_offsets + cells.sizes


def _is_apart(cells: Cells, file_bytes: int) -> NDArray[np.bool_]:
    """Of each cell but the first, whether its record is read by itself and not with the one before."""
    begins = cells.log_offsets
    gaps = begins[1:] - _ends(cells)[:-1]
    is_apart: NDArray[np.bool_] = (gaps < 0) | (gaps > GAP_BYTES)
    is_apart |= begins[1:] // file_bytes != begins[:-1] // file_bytes
    return is_apart
