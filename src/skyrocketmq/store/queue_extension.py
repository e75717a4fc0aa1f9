"""More about the messages of a queue than its cells can hold: for filters, where `enableConsumeQueueExt` is on.

    | size 2 | tags code 8 | store time 8 | bit map size 2 | bit map |      a unit; its cell holds its address

A cell whose tags code is below every hash holds the address of a unit instead: its byte offset in the row of extension
files plus -2^63. The bit map says which of the filters on the topic want the message.

Rule 1: units only spare work. A reader that does not find one reads the message itself, so nothing here may be wrong,
but anything may be missing.
Rule 2: therefore units are not synced. After a crash all of them are given up, and new ones begin in a new file, behind
every address that a cell may still hold.
Rule 3: a unit lies in one file; two bytes of -1 end a file that has no room for another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from skyrocketmq.ports import Disk
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.file_rows import create_sparse, file_name
from skyrocketmq.store.open_files import OpenFiles

__all__ = ["EXT_ADDRESS_MAX", "ExtensionUnit", "QueueExtensions"]

logger = logging.getLogger(__name__)

EXT_ADDRESS_MAX: Final = -(2**31) - 1  # a tags code at or below this is an address
ADDRESS_BASE: Final = -(2**63)
UNIT_HEAD: Final = Struct(">hqqh")  # | size 2 | tags code 8 | store time 8 | bit map size 2 |
UNIT_HEAD_BYTES: Final = 20
UNIT_BYTES_MAX: Final = 32_767
FILE_END: Final = b"\xff\xff"
FILE_END_BYTES: Final = 4  # spare bytes behind the last unit of a file
OPEN_FILES_MAX: Final = 64
assert UNIT_HEAD.size == UNIT_HEAD_BYTES


class ExtensionUnit(NamedTuple):
    tags_code: int
    store_ms: int
    bit_map: bytes  # empty if no filter was on the topic, or too many were


class QueueExtensions:
    """The extension files of all queues. `bit_map_of` is asked for each message: its topic and its properties."""

    def __init__(self, disk: Disk, root: Path, *, file_bytes: int) -> None:
        self.bit_map_of: Callable[[str, bytes], bytes] = _no_bit_map
        self._disk = disk
        self._root = root
        self._file_bytes = file_bytes
        self._open_files = OpenFiles(disk, count_max=OPEN_FILES_MAX)
        self._ends: dict[ConsumeQueue, int] = {}  # where the next unit of a queue begins
        self._has_failed = False

    def give_up_all(self) -> None:
        """After a crash: take all units away, and leave a file that begins behind them. Blocks."""
        for topic in self._disk.list(self._root):
            for queue_id in self._disk.list(self._root / topic):
                directory = self._root / topic / queue_id
                starts = self._starts(directory)
                if starts:
                    create_sparse(self._disk, directory / file_name(starts[-1] + self._file_bytes), self._file_bytes)
                for start in starts:
                    self._disk.unlink(directory / file_name(start))

    def close(self) -> None:
        self._open_files.close()

    # -------------------------------------------------------------------------------------------------------- writing

    def extend(self, queue: ConsumeQueue, properties: bytes, tags_code: int, store_ms: int) -> int:
        """What the cell of a new message holds: the address of its unit, or its tags code where that cannot be."""
        bit_map = self.bit_map_of(queue.topic, properties)
        size = UNIT_HEAD_BYTES + len(bit_map)
        if size > UNIT_BYTES_MAX:
            return tags_code
        try:
            at = self._write(queue, UNIT_HEAD.pack(size, tags_code, store_ms, len(bit_map)) + bit_map)
        except OSError as error:
            if not self._has_failed:
                logger.warning("queue extension not written", extra={"topic": queue.topic, "error": str(error)})
            self._has_failed = True
            return tags_code
        self._has_failed = False
        return ADDRESS_BASE + at

    def _write(self, queue: ConsumeQueue, unit: bytes) -> int:
        directory = self._directory(queue)
        at = self._ends[queue] if queue in self._ends else self._find_end(queue, directory)
        start = at - at % self._file_bytes
        if at + len(unit) + FILE_END_BYTES > start + self._file_bytes:
            self._open_files.get(directory / file_name(start)).pwrite(FILE_END, at - start)
            at = start = start + self._file_bytes
        path = directory / file_name(start)
        if at == start and not self._disk.exists(path):
            self._disk.make_directories(directory)
            create_sparse(self._disk, path, self._file_bytes)
        self._open_files.get(path).pwrite(unit, at - start)
        self._ends[queue] = at + len(unit)
        return at

    def _find_end(self, queue: ConsumeQueue, directory: Path) -> int:
        """Behind the last unit; where that is not known for sure, at the beginning of the next file."""
        starts = self._starts(directory)
        last = queue.read_cell(queue.max_offset - 1) if queue.max_offset else None
        known = last[2] - ADDRESS_BASE if last is not None and last[2] <= EXT_ADDRESS_MAX else -1
        unit = self.find(queue, last[2]) if last is not None and known >= 0 else None
        if unit is not None and starts and known >= starts[-1]:
            return known + UNIT_HEAD_BYTES + len(unit.bit_map)
        end = known - known % self._file_bytes + self._file_bytes if known >= 0 else 0
        if starts:
            is_unused = self._disk.read(directory / file_name(starts[-1]))[:2] == b"\0\0"
            end = max(end, starts[-1] if is_unused else starts[-1] + self._file_bytes)
        return end

    # -------------------------------------------------------------------------------------------------------- reading

    def find(self, queue: ConsumeQueue, address: int) -> ExtensionUnit | None:
        """The unit at an address; None if it is gone, or would have to be waited for."""
        at = address - ADDRESS_BASE
        start = at - at % self._file_bytes
        try:
            file = self._open_files.get(self._directory(queue) / file_name(start))
            head = file.pread_cached(UNIT_HEAD_BYTES, at - start)
            if head is None or len(head) < UNIT_HEAD_BYTES:
                return None
            size, tags_code, store_ms, bit_map_bytes = UNIT_HEAD.unpack(head)
            if size != UNIT_HEAD_BYTES + bit_map_bytes:
                return None
            bit_map = file.pread_cached(bit_map_bytes, at - start + UNIT_HEAD_BYTES) if bit_map_bytes else b""
        except OSError:
            return None
        return None if bit_map is None else ExtensionUnit(tags_code, store_ms, bit_map)

    # ------------------------------------------------------------------------------------------------------- cleaning

    def clean(self) -> None:
        """Delete the files of units that no cell holds any more, of the queues that got messages since the start."""
        for queue in list(self._ends):
            self._clean(queue)

    def _clean(self, queue: ConsumeQueue) -> None:
        directory = self._directory(queue)
        starts = self._starts(directory)
        first = queue.read_cell(int(queue.min_offset))
        if first is None and queue.is_empty:
            needed_from = 2**63  # the topic was deleted
            self._ends.pop(queue, None)
        elif first is not None and first[2] <= EXT_ADDRESS_MAX:
            needed_from = first[2] - ADDRESS_BASE
        else:
            return
        for start in starts:
            if start + self._file_bytes <= needed_from:
                path = directory / file_name(start)
                self._open_files.forget(path)
                self._disk.unlink(path)

    def _starts(self, directory: Path) -> list[int]:
        return [int(name) for name in self._disk.list(directory) if name.isdecimal()]

    def _directory(self, queue: ConsumeQueue) -> Path:
        return self._root / queue.topic / str(queue.queue_id)


def _no_bit_map(topic: str, properties: bytes) -> bytes:
    return b""
