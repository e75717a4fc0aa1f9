"""One consume queue: where in the log each message of a queue lies.

    | log offset 8 | record size 4 | tags code 8 |      cell n is at byte 20 * n

A hot module: every message stored adds a cell, every pull reads some.

Rule 1: cells are collected in memory (`tail`) and written once a second by one `pwrite`. A reader takes them from
either place. Measured against writing through a map: the same cost a message, stalls of 5 ms where the map has 15 to
100, and no reserved space; ten thousand queues then take what they hold, not 60 GB. What a crash loses of the tail is
built again from the log.
Rule 2: the files are sparse and therefore a full disk can refuse a write. The cells then stay in memory, and the store
takes no messages until they are written.
Rule 3: cells are added in order, without gaps, one at a time. Those of an open batch wait in `pending`, unseen, until
`show` or `take_back`; `next_offset` counts them already.
Rule 4: the object of a queue lives as long as the store: who has it may keep it, even when the topic is deleted.
"""

from __future__ import annotations

import logging
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from skyrocketmq.hot import QueueTail
from skyrocketmq.model.offsets import QueueOffset
from skyrocketmq.ports import Disk
from skyrocketmq.store.cold_reads import ColdRange, Steps, run_blocking
from skyrocketmq.store.file_rows import create_sparse, file_name, load_row, translated
from skyrocketmq.store.open_files import OpenFiles

__all__ = ["CELL", "CELL_BYTES", "FILLER", "ConsumeQueue"]

logger = logging.getLogger(__name__)

KEY: Final = "mappedFileSizeConsumeQueue"
CELL: Final = Struct(">qiq")  # | log offset 8 | record size 4 | tags code 8 |
CELL_BYTES: Final = 20
FILLER_SIZE: Final = 0x7FFFFFFF
FILLER: Final = CELL.pack(0, FILLER_SIZE, 0)  # stands before the first message of a queue that does not begin at 0
assert CELL.size == CELL_BYTES

_CELL_WORDS: Final = CELL_BYTES // 4
_SIZE_WORD: Final = 2
assert array("I").itemsize == 4
_log_offset_and_size = Struct(">qi").unpack_from


class ConsumeQueue(QueueTail):
    """The cells of one queue of one topic. Called on the loop's thread only."""

    __slots__ = (
        "_directory",
        "_disk",
        "_file_bytes",
        "_last_path",
        "_last_start",
        "_open_files",
        "_starts",
        "_synced_files",
        "is_dirty",
        "min_offset",
        "stored_bytes",
        "stored_count",
        "synced_bytes",
        "tail",
        "topic",
        "written_bytes",
    )

    def __init__(
        self, disk: Disk, open_files: OpenFiles, directory: Path, *, topic: str, queue_id: int, file_bytes: int
    ) -> None:
        assert file_bytes % CELL_BYTES == 0
        super().__init__(topic.encode("utf-8", "surrogatepass"), queue_id)
        self.topic = topic
        self.min_offset = QueueOffset(0)
        self.tail = bytearray()  # cells that are not in the files yet
        self.written_bytes = 0  # end of what is in the files, and begin of the tail
        self.synced_bytes = 0  # end of what is known to be durable
        self.is_dirty = False  # listed for the next write-out
        self.stored_count = 0  # messages written out since `take_stored`, and the bytes of their records
        self.stored_bytes = 0
        self._disk = disk
        self._open_files = open_files
        self._directory = directory
        self._file_bytes = file_bytes
        self._starts: list[int] = []  # of the files, in order
        self._last_start = -1  # of the file that was read or written last: the next time it is most likely the same
        self._last_path = directory
        self._synced_files = 0  # how many of them have their names for sure

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}-{self.queue_id} {self.min_offset}..{self.max_offset}>"

    @property
    def max_offset(self) -> QueueOffset:
        """One more than the offset of the newest message that can be read."""
        return QueueOffset((self.written_bytes + len(self.tail)) // CELL_BYTES)

    @property
    def is_empty(self) -> bool:
        """Whether it has no cell at all; the first message then decides where it begins."""
        return not self.tail and not self._starts and not self.pending

    # ---------------------------------------------------------------------------------------------------- reading

    def peek_cells(self, offset: int, count: int) -> bytes | ColdRange | None:
        """Up to `count` cells from this offset on, all of one file; None if the file is gone.

        The offset is below `max_offset`. A range is returned where the file must be read with waiting.
        """
        at = offset * CELL_BYTES
        start = at - at % self._file_bytes
        end = min(at + count * CELL_BYTES, start + self._file_bytes)
        written = self.written_bytes
        if at >= written:
            return bytes(self.tail[at - written : end - written])
        if start not in self._starts:
            return None
        stop = min(end, written)
        path = self._last_path if start == self._last_start else self._path(start)
        data = self._open_files.get(path).pread_cached(stop - at, at - start)
        if data is None:
            return ColdRange(self._open_files, path, at - start, stop - at)
        return data + self.tail[: end - written] if end > written else data

    def _path(self, start: int) -> Path:
        """The same object as the last time, if it is the same file: making and comparing paths takes microseconds."""
        if start != self._last_start:
            self._last_start, self._last_path = start, self._directory / file_name(start)
        return self._last_path

    def next_file_offset(self, offset: int) -> int:
        """The first offset of the file after the one with this offset."""
        at = offset * CELL_BYTES
        return (at - at % self._file_bytes + self._file_bytes) // CELL_BYTES

    def read_cell(self, offset: int) -> tuple[int, int, int] | None:
        """One cell (log offset, size, tags code), waiting for the disk if need be: for loading and for tools."""
        if not self.first_offset <= offset < self.max_offset:
            return None
        data = self.peek_cells(offset, 1)
        if isinstance(data, ColdRange):
            data = self._open_files.get(data.path).pread(data.length, data.position)
        if not data:
            return None
        log_offset, size, tags_code = CELL.unpack(data)
        return log_offset, size, tags_code

    @property
    def first_offset(self) -> int:
        """The first cell there is, be it a filler or of a message whose log file is gone; see `min_offset`."""
        return (self._starts[0] if self._starts else self.written_bytes) // CELL_BYTES

    def log_end(self) -> int:
        """Where in the log the newest message of the queue ends; -1 for an empty queue."""
        cell = self.last_message()
        return -1 if cell is None else cell[0] + cell[1]

    def last_message(self) -> tuple[int, int] | None:
        """Log offset and size of the newest message, before any fillers; None if there is none. Blocks."""
        found = run_blocking(self.find_message_before(int(self.max_offset), self.first_offset))
        return None if found is None else _log_offset_and_size(found[1], 0)

    def first_at_or_after(self, log_offset: int) -> int:
        """The first offset whose message lies at this log offset or behind it; else the queue's end. Blocks."""
        return run_blocking(self.find_min_offset(log_offset))

    def correct_min_offset(self, log_min_offset: int) -> None:
        """Let the queue begin with the first message that the log still has. Blocks."""
        self.min_offset = QueueOffset(run_blocking(self.find_min_offset(log_min_offset)))

    def find_min_offset(self, log_offset: int) -> Steps[int]:
        """The first offset whose message lies at this log offset or behind it; the queue's end if there is none."""
        low, high = self.first_offset, int(self.max_offset)
        if low < high and _is_at_or_after((yield from self.read_cells(low, 1)), log_offset):
            return low  # the usual case, with one look
        while low < high:
            middle = (low + high) // 2
            # A place that was kept for a lost message says nothing; the message before it does.
            found = yield from self.find_message_before(middle + 1, low)
            if found is not None and _is_at_or_after(found[1], log_offset):
                high = found[0]
            else:
                low = middle + 1
        return low

    def find_message_before(self, end: int, low: int) -> Steps[tuple[int, bytes] | None]:
        """The last cell in [low, end) that is no filler, with its offset; one that was never written counts too."""
        count = 1
        while end > low:
            begin = max(low, end - count, end - 1 - (end - 1) % (self._file_bytes // CELL_BYTES))  # within one file
            data = yield from self.read_cells(begin, end - begin)
            for at in range(len(data) - CELL_BYTES, -1, -CELL_BYTES):
                if _log_offset_and_size(data, at)[1] != FILLER_SIZE:
                    return begin + at // CELL_BYTES, data[at : at + CELL_BYTES]
            end, count = begin, min(count * 8, 32_768)
        return None

    def find_last_message(self) -> Steps[int | None]:
        """The offset of the newest message that the log may still have; None if there is none."""
        found = yield from self.find_message_before(int(self.max_offset), int(self.min_offset))
        return None if found is None else found[0]

    def read_cells(self, offset: int, count: int) -> Steps[bytes]:
        """Up to `count` cells from this offset on, which is below `max_offset`; nothing if their file is gone."""
        data = self.peek_cells(offset, count)
        if isinstance(data, ColdRange):
            (data,) = yield [data]
        return data or b""

    # ---------------------------------------------------------------------------------------------------- writing

    def put(self, offset: int, cells: bytes | bytearray) -> None:
        """Add the cells of messages that were found in the log, which follow each other.

        The first one's offset is the queue's next, unless the queue is empty: then it begins there.
        """
        tail = self.tail
        if not tail and self.is_empty:
            self.written_bytes = self.synced_bytes = offset * CELL_BYTES
            self.min_offset = QueueOffset(offset)
        assert offset * CELL_BYTES == self.written_bytes + len(tail), "the dispatcher deals with gaps and repetitions"
        tail += cells
        self.next_offset = offset + len(cells) // CELL_BYTES

    def fill_up_to(self, offset: int) -> None:
        """Keep the places of messages that are lost, so that those behind them keep their offsets."""
        if self.is_empty:  # nothing is before them either: the queue begins there
            self.written_bytes = self.synced_bytes = offset * CELL_BYTES
            self.min_offset, self.next_offset = QueueOffset(offset), offset
            return
        self.tail += FILLER * (offset - self.max_offset)
        self.next_offset = offset

    def skip_to(self, offset: int) -> None:
        """Give nobody the numbers before this one: messages may have had them that a power cut has taken."""
        if self.is_empty:  # its files will show that it has come so far
            last = (offset - 1) * CELL_BYTES
            self.written_bytes = self.synced_bytes = last - last % self._file_bytes
            self.min_offset = QueueOffset(offset)
        self.tail += FILLER * (offset - self.max_offset)
        self.next_offset = offset

    def show(self) -> None:
        """Let readers see the messages that were added: the log has them now."""
        self.tail += self.pending
        self.pending.clear()
        self.is_touched = False

    def take_back(self) -> None:
        """Forget the messages that were added: the log could not take them."""
        self.pending.clear()
        self.is_touched = False
        self.next_offset = int(self.max_offset)

    def write_out(self) -> None:
        """Write the tail to the files. Raises `DiskFull` or `OSError`; what was not written stays in memory."""
        while self.tail:
            at = self.written_bytes
            start = at - at % self._file_bytes
            path = self._path(start)
            data = bytes(self.tail[: start + self._file_bytes - at])
            try:
                if start not in self._starts:
                    self._create(start, path)
                self._open_files.get(path).pwrite(data, at - start)
            except OSError as error:
                raise translated(error, path) from error
            # Nothing waits between the write and this: a reader sees every cell in exactly one place.
            self.written_bytes = at + len(data)
            del self.tail[: len(data)]
            self.stored_count += len(data) // CELL_BYTES
            self.stored_bytes += _record_bytes(data)

    def _create(self, start: int, path: Path) -> None:
        self._disk.make_directories(self._directory)
        create_sparse(self._disk, path, self._file_bytes)
        fillers = (self.written_bytes - start) // CELL_BYTES
        if fillers and not self._starts:
            self._open_files.get(path).pwrite(FILLER * fillers, 0)
        self._starts.append(start)

    # ---------------------------------------------------------------------------------------------------- flushing

    def unsynced_pages(self, page_bytes: int) -> int:
        """How many pages of the files were written since the last sync."""
        return self.written_bytes // page_bytes - self.synced_bytes // page_bytes

    def unsynced_files(self) -> list[Path]:
        """The files to sync for everything up to `written_bytes`."""
        if self.written_bytes <= self.synced_bytes:
            return []
        first = self.synced_bytes - self.synced_bytes % self._file_bytes
        return [self._directory / file_name(start) for start in self._starts if first <= start < self.written_bytes]

    def unsynced_directories(self) -> list[Path]:
        """The directories to sync, because files were made in them: without that a file may lose its name."""
        if self._synced_files == len(self._starts):
            return []
        return self.directories()

    def directories(self) -> list[Path]:
        """Those that its files' names depend on, the innermost first."""
        return [self._directory, self._directory.parent, self._directory.parent.parent]

    def mark_synced(self, written_bytes: int) -> None:
        """Everything up to here is durable now."""
        self.synced_bytes = min(written_bytes, self.written_bytes)
        self._synced_files = sum(1 for start in self._starts if start < self.synced_bytes)

    # ---------------------------------------------------------------------------------------------------- cleaning

    def old_files(self) -> list[Path]:
        """All files but the newest, oldest first."""
        return [self._directory / file_name(start) for start in self._starts[:-1]]

    def drop_files(self, count: int) -> list[Path]:
        """Forget so many of the oldest files; returns them, and the caller deletes them."""
        paths = self.old_files()[:count]
        for path in paths:
            self._open_files.forget(path)
        del self._starts[: len(paths)]
        self._synced_files = max(self._synced_files - len(paths), 0)
        return paths

    def move_min_offset(self, offset: int) -> None:
        """Let the queue begin here; it never begins earlier than before."""
        self.min_offset = QueueOffset(max(self.min_offset, offset))

    # --------------------------------------------------------------------------------------- loading and recovery

    def load(self, *, is_clean: bool) -> None:
        """Find the files; the end is then known only up to the last file and set by `end_at`. Blocks.

        After a crash files may lack their size, as far as they were not synced; what they lack holds no cells.
        """
        row = load_row(self._disk, (self._directory,), file_bytes=self._file_bytes, key=KEY, may_be_short=not is_clean)
        for file in row:
            if file.size < self._file_bytes:
                create_sparse(self._disk, file.path, self._file_bytes)
        self._starts = [file.start for file in row]
        end = row[-1].start + self._file_bytes if row else 0
        self.written_bytes = self.synced_bytes = end
        self.next_offset = end // CELL_BYTES

    def ends_with_filler(self) -> bool:
        """Whether numbers were skipped since the last message. Blocks."""
        cell = self.read_cell(self.max_offset - 1)
        return cell is not None and cell[1] == FILLER_SIZE

    def drop_fillers(self) -> list[Path]:
        """Let the queue end with its last message; returns files that the caller deletes. Nothing is in memory only."""
        found = run_blocking(self.find_message_before(int(self.max_offset), self.first_offset))
        if found is None:
            return self.clear()
        self.end_at(found[0] + 1, erase=True)
        self.synced_bytes -= CELL_BYTES  # that they are gone is to be synced
        return []

    def find_end(self) -> int:
        """The first offset without a cell, for a queue that was closed in order: its cells have no holes. Blocks."""
        low, high = self.first_offset, int(self.max_offset)
        while low < high:
            middle = (low + high) // 2
            cell = self.read_cell(middle)
            if cell is not None and cell[0] >= 0 and cell[1] > 0:
                low = middle + 1
            else:
                high = middle
        return low

    def end_at(self, offset: int, *, erase: bool) -> None:
        """Let the queue end before this offset: later files are deleted, and with `erase` later cells wiped. Blocks."""
        end = offset * CELL_BYTES
        self.tail.clear()
        for start in [start for start in self._starts if start >= end]:
            self._starts.remove(start)
            self._unlink(start)
        start = end - end % self._file_bytes
        if erase and start in self._starts:
            path = self._directory / file_name(start)
            file = self._open_files.get(path)
            file.truncate(end - start)  # the quick way to have zeros; `load` mends what a crash leaves between the two
            file.truncate(self._file_bytes)
        self.written_bytes = self.synced_bytes = end
        self.next_offset = offset

    def clear(self) -> list[Path]:
        """Make the queue empty, to begin at 0 again; returns the files, which the caller deletes."""
        paths = [self._directory / file_name(start) for start in self._starts]
        for path in paths:
            self._open_files.forget(path)
        self._starts = []
        self._synced_files = 0
        assert not self.pending, "the open batch is committed first"
        self.tail.clear()
        self.written_bytes = self.synced_bytes = self.next_offset = 0
        self.min_offset = QueueOffset(0)
        return paths

    def cells(self) -> Iterator[tuple[int, int, int, int]]:
        """All cells as (offset, log offset, size, tags code): for tools and for checks. Blocks."""
        for offset in range(self.first_offset, self.max_offset):
            if (cell := self.read_cell(offset)) is not None:
                yield offset, *cell

    def _unlink(self, start: int) -> None:
        path = self._directory / file_name(start)
        self._open_files.forget(path)
        self._disk.unlink(path)
        logger.info("queue file behind the end deleted", extra={"path": str(path)})


def _record_bytes(cells: bytes) -> int:
    """The size of all records together: a second's cells in one go, so that no message is counted on its own."""
    words = array("I", cells)
    if sys.byteorder == "little":
        words.byteswap()
    return sum(words[_SIZE_WORD::_CELL_WORDS])


def _is_at_or_after(cell: bytes, log_offset: int) -> bool:
    """Whether this is a message at the log offset or behind it, or the end of what was written."""
    if len(cell) < CELL_BYTES:
        return True
    position: int
    size: int
    position, size = _log_offset_and_size(cell, 0)
    return size != FILLER_SIZE and (size <= 0 or position >= log_offset)
