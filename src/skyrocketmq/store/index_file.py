"""One index file: a hash table on disk from `topic#key` to places in the log.

    | header 40 | slot 4 | slot 4 | ... | entry 20 | entry 20 | ...

    header   | begin time 8 | end time 8 | begin offset 8 | end offset 8 | used slots 4 | entry count 4 |
    entry    | key hash 4 | log offset 8 | seconds since begin time 4 | previous entry of the slot 4 |

Rule 1: entries are numbered from 1; the count in the header is one more than there are. A slot holds the number of its
newest entry, each entry that of the one before it.
Rule 2: header and slots are written through a map, because they are touched here and there (`hot.index_entries`);
entries follow each other and are written by one `pwrite` a batch. Only the mapped part is reserved on the disk: in a
mapped page a full disk would kill the process.
Rule 3: what is written here can be made again from the log. After a crash the slots are not believed (`cut`).
"""

from __future__ import annotations

import logging
from array import array
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from sys import byteorder
from typing import Final

from skyrocketmq.hot import put_keys, take_back_keys
from skyrocketmq.hot.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SLOT_BYTES,
    KEY_BYTES,
    KEY_LOG_OFFSET_AT,
)
from skyrocketmq.ports import Disk, File
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.file_rows import translated
from skyrocketmq.store.open_files import OpenFiles

__all__ = ["IndexFile", "IndexLayout"]

logger = logging.getLogger(__name__)

HEADER: Final = Struct(">qqqqii")  # | begin ms | end ms | begin offset | end offset | used slots | entry count |
SLOT: Final = Struct(">i")
ENTRY: Final = Struct(">iqii")  # | key hash | log offset | seconds since begin | previous entry of the slot |
PAUSE_EVERY: Final = 2_000  # entries followed in one go; a key of millions of messages must not hold the loop
CUT_STEP: Final = 50_000  # entries read at once
assert (HEADER.size, SLOT.size, ENTRY.size) == (INDEX_HEADER_BYTES, INDEX_SLOT_BYTES, INDEX_ENTRY_BYTES)

_key_place = Struct(">qq").unpack_from  # | log offset | store time |, of a packed key


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """How large an index file is."""

    slot_count: int
    entry_count: int

    @property
    def entries_at(self) -> int:
        return INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * self.slot_count

    @property
    def file_bytes(self) -> int:
        return self.entries_at + INDEX_ENTRY_BYTES * self.entry_count


class IndexFile:
    """One file. The newest is open for writing, the others are only read."""

    def __init__(self, open_files: OpenFiles, path: Path, layout: IndexLayout) -> None:
        self.path = path
        self.begin_ms = self.end_ms = 0
        self.begin_offset = self.end_offset = 0
        self.used_slots = 0
        self.count = 1
        self._open_files = open_files
        self._layout = layout
        self._mapped: memoryview | None = None  # header and slots, while the file is written
        self._writer: File | None = None  # held while the file is open for writing

    @property
    def is_full(self) -> bool:
        return self.count >= self._layout.entry_count

    @property
    def room(self) -> int:
        """How many more entries fit."""
        return self._layout.entry_count - self.count

    # ------------------------------------------------------------------------------------------ opening and closing

    def create(self, disk: Disk, *, after: IndexFile | None) -> None:
        """Make the file, going on from the end of the one before it. Raises `DiskFull` or `OSError`; leaves nothing."""
        try:
            file = disk.open(self.path, create=True)
            try:
                file.allocate(self._layout.entries_at)
                file.truncate(self._layout.file_bytes)
            finally:
                file.close()
            self.open_for_writing()
        except OSError as error:
            self._open_files.forget(self.path)
            disk.unlink(self.path)
            raise translated(error, self.path) from error
        if after is not None:
            self.begin_ms = self.end_ms = after.end_ms
            self.begin_offset = self.end_offset = after.end_offset
        self._write_header()

    def load(self) -> None:
        """Read the header. Blocks."""
        data = self._open_files.get(self.path).pread(INDEX_HEADER_BYTES, 0)
        fields = HEADER.unpack(data)
        self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.count = fields
        self.count = max(self.count, 1)

    def open_for_writing(self) -> None:
        """Map header and slots and keep the file open."""
        if self._mapped is None:
            file = self._writer = self._open_files.hold(self.path)
            self._mapped = memoryview(file.map(self._layout.entries_at, writable=True))

    def seal(self) -> None:
        """The file is full: it is only read from now on."""
        if self._mapped is not None:
            assert self._writer is not None, "held since it was opened for writing"
            self._open_files.release(self._writer)
            self._mapped = self._writer = None

    # ---------------------------------------------------------------------------------------------------- writing

    def put_all(self, keys: bytes) -> None:
        """Add entries for packed keys (`hot.pack_key`), at least one. There is room for them.

        Raises `DiskFull` or `OSError`, then nothing was added.
        """
        mapped, slot_count = self._mapped, self._layout.slot_count
        assert mapped is not None, "the file is not open for writing"
        assert len(keys) <= self.room * KEY_BYTES, "the index opens the next file first"
        begin = (self.begin_offset, self.begin_ms) if self.count > 1 else _key_place(keys, KEY_LOG_OFFSET_AT)
        entries, used = put_keys(mapped, keys, first=self.count, slot_count=slot_count, begin_ms=begin[1])
        try:
            self._open_files.get(self.path).pwrite(entries, self._entry_at(self.count))
        except OSError as error:
            take_back_keys(mapped, entries, slot_count=slot_count)
            raise translated(error, self.path) from error
        self.begin_offset, self.begin_ms = begin
        self.end_offset, self.end_ms = _key_place(keys, len(keys) - KEY_BYTES + KEY_LOG_OFFSET_AT)
        self.used_slots += used
        self.count += len(keys) // KEY_BYTES
        self._write_header()

    def _write_header(self) -> None:
        assert self._mapped is not None
        self._mapped[:INDEX_HEADER_BYTES] = self._header()

    # ---------------------------------------------------------------------------------------------------- reading

    def find(self, key_hash: int, *, count_max: int, begin_ms: int, end_ms: int) -> Steps[list[int]]:
        """Log offsets of entries with this hash and a time in [begin, end], newest first."""
        found: list[int] = []
        slot_at = INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * (key_hash % self._layout.slot_count)
        number = SLOT.unpack((yield from self._read(INDEX_SLOT_BYTES, slot_at)))[0]
        followed = 0
        while 0 < number <= self.count and len(found) < count_max:
            data = yield from self._read(INDEX_ENTRY_BYTES, self._entry_at(number))
            entry_hash, log_offset, seconds, previous = ENTRY.unpack(data)
            if seconds < 0:
                break
            stored_ms = self.begin_ms + seconds * 1000
            if entry_hash == key_hash and begin_ms <= stored_ms <= end_ms:
                found.append(log_offset)
            if previous == number or stored_ms < begin_ms:
                break
            number = previous
            followed += 1
            if followed % PAUSE_EVERY == 0:
                yield ()
        return found

    def _read(self, length: int, position: int) -> Steps[bytes]:
        data = self._open_files.get(self.path).pread_cached(length, position)
        if data is None:
            (data,) = yield [ColdRange(self._open_files, self.path, position, length)]
        return data

    # --------------------------------------------------------------------------------------------------- recovery

    def cut(self, end: int) -> None:
        """Keep the entries of messages before log offset `end`, which are known to be good, and make the slots anew.

        After a crash the slots may point anywhere: they are written here and there, and the system writes pages as it
        likes. The entries follow each other; what was synced of them is intact. Blocks.
        """
        slot_count = self._layout.slot_count
        slots = array("i", bytes(INDEX_SLOT_BYTES * slot_count))
        number, last_offset, has_more = 1, 0, True
        while has_more and number < self._layout.entry_count:
            length = min(CUT_STEP, self._layout.entry_count - number) * INDEX_ENTRY_BYTES
            data = self._open_files.get(self.path).pread(length, self._entry_at(number))
            for key_hash, log_offset, _, _ in ENTRY.iter_unpack(data):
                if not last_offset <= log_offset < end or key_hash == log_offset == 0:
                    has_more = False
                    break
                slots[key_hash % slot_count] = number
                last_offset = log_offset
                number += 1
        self._rewrite(slots, count=number)

    def _rewrite(self, slots: array[int], *, count: int) -> None:
        """Write the slots and a header for so many entries; what follows them becomes zeros."""
        file = self._open_files.get(self.path)
        if count < self.count:
            logger.info("index entries dropped, to be made again", extra={"path": str(self.path), "kept": count - 1})
            if count > 1:
                _, self.end_offset, seconds, _ = ENTRY.unpack(file.pread(INDEX_ENTRY_BYTES, self._entry_at(count - 1)))
                self.end_ms = self.begin_ms + seconds * 1000
            else:
                self.end_offset, self.end_ms = self.begin_offset, self.begin_ms
        self.count, self.used_slots = count, _used(slots)
        if byteorder == "little":
            slots.byteswap()
        file.truncate(self._entry_at(count))
        file.truncate(self._layout.file_bytes)
        file.pwrite(slots.tobytes(), INDEX_HEADER_BYTES)
        file.pwrite(self._header(), 0)

    def _entry_at(self, number: int) -> int:
        return self._layout.entries_at + INDEX_ENTRY_BYTES * number

    def _header(self) -> bytes:
        return HEADER.pack(self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.count)


def _used(slots: array[int]) -> int:
    return len(slots) - slots.count(0)
