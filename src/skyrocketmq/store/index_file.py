"""One index file: a hash table on disk from `topic#key` to places in the log.

    | header 40 | slot 4 | slot 4 | ... | entry 20 | entry 20 | ...

    header   | begin time 8 | end time 8 | begin offset 8 | end offset 8 | used slots 4 | entry count 4 |
    entry    | key hash 4 | log offset 8 | seconds since begin time 4 | previous entry of the slot 4 |

A hot module: one entry a key, one or more keys a message.

Rule 1: entries are numbered from 1; the count in the header is one more than there are. A slot holds the number of its
newest entry, each entry that of the one before it.
Rule 2: header and slots are written through a map, because they are touched here and there; entries follow each other
and are written by one `pwrite` a batch. Only the mapped part is reserved on the disk: in a mapped page a full disk
would kill the process.
Rule 3: what is written here can be made again from the log. After a crash the slots are not believed (`cut`).
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct, pack, unpack
from sys import byteorder
from typing import Final

from skyrocketmq.ports import Disk, File
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.file_rows import translated
from skyrocketmq.store.key_hash import COUNTERS, TopicKeys
from skyrocketmq.store.open_files import OpenFiles

__all__ = ["IndexFile", "IndexLayout", "KeyPlace"]

logger = logging.getLogger(__name__)

HEADER: Final = Struct(">qqqqii")  # | begin ms | end ms | begin offset | end offset | used slots | entry count |
SLOT: Final = Struct(">i")
ENTRY: Final = Struct(">iqii")  # | key hash | log offset | seconds since begin | previous entry of the slot |
HEADER_BYTES: Final = 40
SLOT_BYTES: Final = 4
ENTRY_BYTES: Final = 20
SECONDS_MAX: Final = 2**31 - 1
PAUSE_EVERY: Final = 2_000  # entries followed in one go; a key of millions of messages must not hold the loop
FEW: Final = 8  # so many entries are written one by one; working by columns has its price
CUT_STEP: Final = 50_000  # entries read at once
assert (HEADER.size, SLOT.size, ENTRY.size) == (HEADER_BYTES, SLOT_BYTES, ENTRY_BYTES)


_slot_at = SLOT.unpack_from
_slot_into = SLOT.pack_into
_entry = ENTRY.pack
_NO_PREVIOUS: Final = bytes(4)
_formats: Final = tuple(">" + "iqii" * count for count in range(129))  # of so many entries

KeyPlace = tuple[TopicKeys, bytes, int]
"""(topic, key, log offset of the message)"""


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """How large an index file is."""

    slot_count: int
    entry_count: int

    @property
    def entries_at(self) -> int:
        return HEADER_BYTES + SLOT_BYTES * self.slot_count

    @property
    def file_bytes(self) -> int:
        return self.entries_at + ENTRY_BYTES * self.entry_count


class IndexFile:
    """One file. The newest is open for writing (`slots` is its map), the others are only read."""

    def __init__(self, open_files: OpenFiles, path: Path, layout: IndexLayout) -> None:
        self.path = path
        self.begin_ms = self.end_ms = 0
        self.begin_offset = self.end_offset = 0
        self.used_slots = 0
        self.count = 1
        self._open_files = open_files
        self._layout = layout
        self._mapped: memoryview | None = None  # header and slots, while the file is written
        self._slots: memoryview | None = None  # the slots as native numbers
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
        data = self._open_files.get(self.path).pread(HEADER_BYTES, 0)
        fields = HEADER.unpack(data)
        self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.count = fields
        self.count = max(self.count, 1)

    def open_for_writing(self) -> None:
        """Map header and slots and keep the file open."""
        if self._slots is None:
            file = self._writer = self._open_files.hold(self.path)
            self._mapped = memoryview(file.map(self._layout.entries_at, writable=True))
            self._slots = self._mapped[HEADER_BYTES:].cast("i")

    def seal(self) -> None:
        """The file is full: it is only read from now on."""
        if self._slots is not None:
            assert self._writer is not None, "held since it was opened for writing"
            self._open_files.release(self._writer)
            self._slots = self._mapped = self._writer = None

    # ---------------------------------------------------------------------------------------------------- writing

    def put_all(self, keys: Sequence[KeyPlace], now_ms: int) -> None:
        """Add entries for messages stored at this time. There is room for them.

        Raises `DiskFull` or `OSError`, then nothing was added.
        """
        assert len(keys) <= self.room, "the index opens the next file first"
        if self.count <= 1:
            self.begin_ms, self.begin_offset = now_ms, keys[0][2]
        put = self._put_few if len(keys) <= FEW else self._put_many
        self.used_slots += put(keys, _seconds_since(self.begin_ms, now_ms))
        self.count += len(keys)
        self.end_ms, self.end_offset = now_ms, keys[-1][2]
        self._write_header()

    def _put_few(self, keys: Sequence[KeyPlace], seconds: int) -> int:
        """Write slots and entries one by one; returns how many slots were empty."""
        mapped = self._mapped
        assert mapped is not None, "the file is not open for writing"
        number, slot_count = self.count, self._layout.slot_count
        entries: list[bytes] = []
        for topic, key, log_offset in keys:
            key_hash = topic.hash_of(key)
            slot_at = HEADER_BYTES + SLOT_BYTES * (key_hash % slot_count)
            previous: int = _slot_at(mapped, slot_at)[0]
            if not 0 < previous < number:
                previous = 0
            entries.append(_entry(key_hash, log_offset, seconds, previous))
            _slot_into(mapped, slot_at, number)
            number += 1
        try:
            self._open_files.get(self.path).pwrite(b"".join(entries), self._entry_at(self.count))
        except OSError as error:
            for key_hash, _, _, previous in map(ENTRY.unpack, reversed(entries)):
                _slot_into(mapped, HEADER_BYTES + SLOT_BYTES * (key_hash % slot_count), previous)
            raise translated(error, self.path) from error
        return sum(1 for entry in entries if entry.endswith(_NO_PREVIOUS))

    def _put_many(self, keys: Sequence[KeyPlace], seconds: int) -> int:
        """The same for a large batch, by columns."""
        slots = self._slots
        assert slots is not None, "the file is not open for writing"
        first, slot_count, counters = self.count, self._layout.slot_count, COUNTERS
        # Slots are big-endian; read as native numbers they come out swapped, and so they are written. Numbers are
        # swapped for the whole batch at once, which costs a tenth of packing and unpacking each.
        swapped = _swapped(range(first, first + len(keys)))
        hashes: list[int] = []
        before: list[int] = []  # what the slots held, swapped
        for (topic, key, _), number in zip(keys, swapped, strict=True):
            try:
                key_hash = topic.prefixes[key[:28]] + counters[key[28:]]
                if key_hash < 0:
                    key_hash = -key_hash
            except KeyError:
                key_hash = topic.hash_of(key)
            slot = key_hash % slot_count
            hashes.append(key_hash)
            before.append(slots[slot])
            slots[slot] = number
        previous = _swapped(before)
        end = first + len(keys)
        if min(previous) < 0 or max(previous) >= end:
            previous = tuple(value if 0 < value < end else 0 for value in previous)
        entries = _entries(hashes, keys, seconds, previous)
        try:
            self._open_files.get(self.path).pwrite(entries, self._entry_at(first))
        except OSError as error:
            for key_hash, value in zip(reversed(hashes), reversed(before), strict=True):
                slots[key_hash % slot_count] = value
            raise translated(error, self.path) from error
        return previous.count(0)

    def _write_header(self) -> None:
        assert self._mapped is not None
        self._mapped[:HEADER_BYTES] = self._header()

    # ---------------------------------------------------------------------------------------------------- reading

    def find(self, key_hash: int, *, count_max: int, begin_ms: int, end_ms: int) -> Steps[list[int]]:
        """Log offsets of entries with this hash and a time in [begin, end], newest first."""
        found: list[int] = []
        slot_at = HEADER_BYTES + SLOT_BYTES * (key_hash % self._layout.slot_count)
        number = SLOT.unpack((yield from self._read(SLOT_BYTES, slot_at)))[0]
        followed = 0
        while 0 < number <= self.count and len(found) < count_max:
            data = yield from self._read(ENTRY_BYTES, self._entry_at(number))
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
        slots = array("i", bytes(SLOT_BYTES * slot_count))
        number, last_offset, has_more = 1, 0, True
        while has_more and number < self._layout.entry_count:
            length = min(CUT_STEP, self._layout.entry_count - number) * ENTRY_BYTES
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
                _, self.end_offset, seconds, _ = ENTRY.unpack(file.pread(ENTRY_BYTES, self._entry_at(count - 1)))
                self.end_ms = self.begin_ms + seconds * 1000
            else:
                self.end_offset, self.end_ms = self.begin_offset, self.begin_ms
        self.count, self.used_slots = count, _used(slots)
        if byteorder == "little":
            slots.byteswap()
        file.truncate(self._entry_at(count))
        file.truncate(self._layout.file_bytes)
        file.pwrite(slots.tobytes(), HEADER_BYTES)
        file.pwrite(self._header(), 0)

    def _entry_at(self, number: int) -> int:
        return self._layout.entries_at + ENTRY_BYTES * number

    def _header(self) -> bytes:
        return HEADER.pack(self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.count)


def _swapped(numbers: Sequence[int]) -> tuple[int, ...]:
    """32-bit numbers with their bytes in the other order, where this machine's is not the files'."""
    if byteorder == "big":
        return tuple(numbers)
    return unpack(f">{len(numbers)}i", pack(f"<{len(numbers)}i", *numbers))


def _entries(hashes: list[int], keys: Sequence[KeyPlace], seconds: int, previous: Sequence[int]) -> bytes:
    count = len(hashes)
    fields = [seconds] * (4 * count)
    fields[0::4] = hashes
    fields[1::4] = [log_offset for _, _, log_offset in keys]
    fields[3::4] = previous
    return pack(_formats[count] if count < len(_formats) else ">" + "iqii" * count, *fields)


def _used(slots: array[int]) -> int:
    return len(slots) - slots.count(0)


def _seconds_since(begin_ms: int, now_ms: int) -> int:
    if begin_ms <= 0:
        return 0
    return min(max((now_ms - begin_ms) // 1000, 0), SECONDS_MAX)
