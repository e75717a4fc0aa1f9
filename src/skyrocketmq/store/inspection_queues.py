"""Consume queues beside the log: is every message where its queue says, and does every place lead to a message?

Records come in the order of the log, so each queue is read from front to back, a stretch of cells at a time. Messages
from before a topic was deleted (`ended_queues`) have no place any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skyrocketmq.errors import StoreError
from skyrocketmq.ports import Disk
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE
from skyrocketmq.store.consume_queue import KEY as QUEUE_KEY
from skyrocketmq.store.ended_queues import EndedQueues
from skyrocketmq.store.file_rows import RowFile, load_row

__all__ = ["QueueCheck", "QueueChecks"]

WINDOW_BYTES: Final = 2_000 * CELL_BYTES
RANGES_MAX: Final = 100
Cell = tuple[int, int, int]
NOTHING: Final = (0, 0, 0)
FILLED: Final = (0, FILLER_SIZE, 0)


@dataclass(slots=True)
class QueueCheck:
    """One queue, and what was found of it so far."""

    topic: str
    queue_id: int
    files: list[RowFile]
    file_bytes: int
    trouble: str = ""
    is_absent: bool = False
    cells: int = 0  # that hold something
    matched: int = 0
    wrong: int = 0  # messages of the log that it does not have where they belong
    missing_at_end: int = 0  # of those, the ones behind its end
    missing_from: int = 0  # log offset of the first of these
    strays: int = 0  # places that lead to no message
    lost: int = 0  # messages that it has a place for and the log has not
    lost_ranges: list[tuple[int, int]] = field(default_factory=list)
    next_offset: int = -1  # expected from the log
    window_at: int = -1
    window: bytes = b""


class QueueChecks:
    """All queues of a store. Blocks."""

    def __init__(self, disk: Disk, directory: Path, file_bytes: int) -> None:
        self._disk = disk
        self._file_bytes = file_bytes
        self._ended = EndedQueues(disk, directory.parent)
        self._ended.load()
        self._queues: dict[tuple[str, int], QueueCheck] = {}
        self.log_end = 0  # where the newest message ends that a queue knows; after `finish`
        for topic in disk.list(directory):
            for name in disk.list(directory / topic):
                if name.isascii() and name.isdecimal():
                    self._queues[topic, int(name)] = self._load(topic, int(name), directory / topic / name)

    def _load(self, topic: str, queue_id: int, directory: Path) -> QueueCheck:
        try:
            row = load_row(self._disk, (directory,), file_bytes=self._file_bytes, key=QUEUE_KEY, may_be_short=True)
        except StoreError as error:
            return QueueCheck(topic, queue_id, [], self._file_bytes, trouble=str(error))
        return QueueCheck(topic, queue_id, row, self._file_bytes)

    def check(self, topic: str, queue_id: int, offset: int, expected: Cell) -> None:
        """A message of the log that has this place in its queue."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = QueueCheck(topic, queue_id, [], self._file_bytes, is_absent=True)
            self._queues[topic, queue_id] = queue
        if queue.next_offset >= 0 and offset > queue.next_offset:
            queue.lost += offset - queue.next_offset
            if len(queue.lost_ranges) < RANGES_MAX:
                queue.lost_ranges.append((queue.next_offset, offset - 1))
        elif offset < queue.next_offset:  # its topic was deleted and made again: what came before has no place any more
            queue.wrong = queue.missing_at_end = queue.matched = queue.lost = 0
            queue.lost_ranges.clear()
        queue.next_offset = offset + 1
        cell = self._cell(queue, offset)
        if cell == expected:
            queue.matched += 1
            queue.missing_at_end = 0
        elif offset < self._ended.find(topic, queue_id) and (cell is None or cell in (NOTHING, FILLED)):
            return
        elif cell is None or cell[0] <= expected[0]:
            queue.wrong += 1
            if cell is None or cell == NOTHING:
                queue.missing_from = queue.missing_from if queue.missing_at_end else expected[0]
                queue.missing_at_end += 1

    def _cell(self, queue: QueueCheck, offset: int) -> Cell | None:
        at = offset * CELL_BYTES
        if not queue.window_at <= at < queue.window_at + len(queue.window):
            start = at - at % self._file_bytes
            file = next((file for file in queue.files if file.start == start), None)
            if file is None:
                return None
            queue.window_at, queue.window = at, self._read(file, at - start, WINDOW_BYTES)
            if len(queue.window) < CELL_BYTES:
                return None
        log_offset, size, tags_code = CELL.unpack_from(queue.window, at - queue.window_at)
        return log_offset, size, tags_code

    def _read(self, file: RowFile, position: int, length: int) -> bytes:
        opened = self._disk.open(file.path, writable=False)
        try:
            data = opened.pread(min(length, self._file_bytes - position), position)
        finally:
            opened.close()
        return data[: len(data) - len(data) % CELL_BYTES]

    def finish(self, log_begin: int, bad: Sequence[tuple[int, int]]) -> Iterator[QueueCheck]:
        """All queues, after the last message, with what their cells say that no message answered to.

        `bad` are the stretches of the log without good records: a place that leads there has lost its message.
        """
        for queue in self._queues.values():
            leading = 0
            for offset, log_offset, size in self._cells(queue):
                queue.cells += 1
                if size == FILLER_SIZE or log_offset < log_begin:
                    continue
                self.log_end = max(self.log_end, log_offset + size)
                if not any(begin <= log_offset < end for begin, end in bad):
                    leading += 1
                elif offset >= queue.next_offset:  # no message behind it has told that it is lost
                    queue.lost += 1
                    queue.lost_ranges.append((offset, offset))
            queue.strays = 0 if queue.wrong else max(leading - queue.matched, 0)
            yield queue

    def _cells(self, queue: QueueCheck) -> Iterator[tuple[int, int, int]]:
        """Offset, log offset and size of every cell that holds something."""
        for file in queue.files:
            for position in range(0, self._file_bytes, WINDOW_BYTES):
                offset = (file.start + position) // CELL_BYTES
                for log_offset, size, _ in CELL.iter_unpack(self._read(file, position, WINDOW_BYTES)):
                    if size > 0:
                        yield offset, log_offset, size
                    offset += 1
