"""Vouchers: checksums of those parts of the log's end that a power cut could tear unseen.

What was never written reads as zeros. A record's body has a checksum and its lengths are fixed, so a torn record shows,
unless its properties, which have none, could hold those zeros themselves. So before a record with a NUL in its
properties is written to the log, an entry here says what its bytes are; a slave, which does not look at records before
it writes, does so for every piece that it copies. Ordinary messages cost nothing.

    | log offset 8 | length 4 | crc32 of those bytes 4 | crc32 of the sixteen bytes before 4 |

Rule 1: an entry is written before the bytes it speaks of, and synced before they are. So of bytes that were synced
there is an entry that matches.
Rule 2: bytes may be written again, after a failed write for instance, and then have several entries: one that matches
is enough. No entry is ever changed.
Rule 3: before the log is cut within what an entry speaks of, another one for the part that stays is written and
synced. The first one will not match any more, and that part may be durable and acknowledged.
Rule 4: what a checkpoint covers needs no voucher. From each checkpoint on entries go into a new file, which is named by
the log offset; the older files are deleted once the checkpoint is durable.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from struct import Struct
from typing import Final

from zlib_ng.zlib_ng import crc32

from skyrocketmq.ports import Disk, File
from skyrocketmq.store.file_rows import file_name, translated

__all__ = ["VOUCHERS_NAME", "Entry", "Ranges", "Vouchers", "matching_ranges", "read_vouchers"]

logger = logging.getLogger(__name__)

VOUCHERS_NAME: Final = "vouchers"
UNFINISHED: Final = ".tmp"  # ends the name of a file that was being replaced
ENTRY: Final = Struct(">qIII")
ENTRY_BYTES: Final = 20
assert ENTRY.size == ENTRY_BYTES
OFFSETS_MAX: Final = 4096
_WORD: Final = Struct(">qII")  # what an entry's own checksum covers

Entry = tuple[int, int, int]
"""Log offset, length, checksum."""


class Vouchers:
    """Where entries are written. Loop's thread, but for what `take_unsynced` gives and for what blocks."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._name = file_name(0)  # of the file that takes entries; it is made with the first of them
        self._begin = 0  # of the log: entries begin here at the earliest
        self._file: File | None = None
        self._end = 0  # of its entries
        self._offsets: deque[int] = deque(maxlen=OFFSETS_MAX)  # where the parts begin that the newest entries speak of
        self._is_new = False  # its name may not be durable
        self._unsynced: list[File] = []
        # A helper thread may be syncing a file that is not needed any more: it is closed with the next checkpoint,
        # which has waited for that sync.
        self._retired: list[File] = []  # needed until the checkpoint that is being made is durable
        self._dropped: list[File] = []  # not needed
        self._closable: list[File] = []  # and not to be synced either

    def begin(self, log_offset: int) -> None:
        """Let entries that follow go into a file of their own: they speak of the log from here on."""
        dropped, self._dropped = self._dropped, []
        self._unsynced = [file for file in self._unsynced if file not in dropped]
        self._closable += dropped
        if (name := file_name(log_offset)) == self._name and self._file is not None:
            return
        if self._file is not None:
            self._retired.append(self._file)
            self._file = None
        self._name, self._begin = name, log_offset
        self._offsets.clear()

    def vouch(self, offset: int, data: bytes | memoryview) -> None:
        """Say what bytes are about to be written here. Raises `DiskFull` or `OSError`; then they are not to be."""
        word = _WORD.pack(offset, len(data), crc32(data))
        path = self._directory / self._name
        try:
            if self._file is None:
                self._file = self._disk.open(path, create=True)
                self._end = -(-self._file.size() // ENTRY_BYTES) * ENTRY_BYTES
                self._is_new = True
            self._file.pwrite(word + crc32(word).to_bytes(4, "big"), self._end)
        except OSError as error:
            raise translated(error, path) from error
        self._end += ENTRY_BYTES
        while self._offsets and self._offsets[-1] >= offset:  # what followed was dropped, and is written again
            self._offsets.pop()
        self._offsets.append(offset)
        if self._file not in self._unsynced:
            self._unsynced.append(self._file)

    def vouch_again(self, end: int, read: Callable[[int, int], bytes]) -> None:
        """The log is about to end here, within what an entry of this life speaks of: speak of the part that stays.

        To be synced before the log is cut. Raises as `vouch` does.
        """
        begin = next((offset for offset in reversed(self._offsets) if offset <= end), self._begin)
        if self._file is not None and begin < end:
            self.vouch(begin, read(begin, end))

    def take_unsynced(self) -> Callable[[], None] | None:
        """What makes all entries up to now durable, to be called in a helper thread; None if they are."""
        if not self._unsynced:
            return None
        files, self._unsynced = self._unsynced, []
        is_new, self._is_new = self._is_new, False

        def sync() -> None:
            for file in files:
                file.fdatasync()
            if is_new:
                self._disk.sync_directory(self._directory)

        return sync

    def drop_old(self) -> None:
        """Delete the files before the present one: a checkpoint covers what they speak of. Blocks."""
        for file in self._closable:
            file.close()
        self._closable = []
        self._dropped += self._retired
        self._retired = []
        try:
            self._unlink({self._name})
        except OSError as error:  # more to read at the next start, and the next checkpoint tries again
            logger.warning("old vouchers not deleted", extra={"error": str(error)})

    def carry_over(self) -> None:
        """Make what an earlier life has left durable as it was found: it may be in the page cache only. Blocks."""
        for name in self._disk.list(self._directory):
            if name.endswith(UNFINISHED):  # a start was cut off; to replace the file itself would take it away
                self._disk.unlink(self._directory / name)
        for name in _names(self._disk, self._directory):
            path = self._directory / name
            if entries := _entries(self._disk.read(path)):
                self._replace(path, entries)
            else:
                self._disk.unlink(path)

    def shorten(self, end: int, read: Callable[[int, int], bytes]) -> None:
        """The log is about to end here: speak of the part that stays of what earlier lives have vouched for. Blocks.

        An entry that does not match now is none, and says nothing of that part. Raises `OSError`; then nothing is to
        be cut.
        """
        for name in _names(self._disk, self._directory):
            path = self._directory / name
            entries = _entries(self._disk.read(path))
            spanning = [entry for entry in entries if entry[0] < end < entry[0] + entry[1] and _matches(entry, read)]
            if spanning:
                self._replace(
                    path, entries + [(begin, end - begin, crc32(read(begin, end))) for begin, _, _ in spanning]
                )

    def _replace(self, path: Path, entries: Iterable[Entry]) -> None:
        words = (_WORD.pack(*entry) for entry in entries)
        self._disk.replace(path, b"".join(word + crc32(word).to_bytes(4, "big") for word in words))

    def forget(self) -> None:
        """Delete all entries of earlier lives: they speak of bytes that somebody else may have written over. Blocks."""
        self._unlink(set())

    def _unlink(self, kept: set[str]) -> None:
        for name in self._disk.list(self._directory):
            if name not in kept:
                self._disk.unlink(self._directory / name)

    def close(self) -> None:
        for file in (*self._retired, *self._dropped, *self._closable, *(() if self._file is None else (self._file,))):
            file.close()
        self._retired, self._dropped, self._closable = [], [], []
        self._unsynced, self._file = [], None


def read_vouchers(disk: Disk, directory: Path) -> list[Entry]:
    """All entries that are whole. Blocks."""
    return [entry for name in _names(disk, directory) for entry in _entries(disk.read(directory / name))]


def _names(disk: Disk, directory: Path) -> list[str]:
    return [name for name in disk.list(directory) if not name.endswith(UNFINISHED)]


def _entries(data: bytes) -> list[Entry]:
    whole = len(data) - len(data) % ENTRY_BYTES
    return [
        (offset, length, checksum)
        for offset, length, checksum, own in ENTRY.iter_unpack(data[:whole])
        if crc32(_WORD.pack(offset, length, checksum)) == own
    ]


def matching_ranges(entries: Iterable[Entry], read: Callable[[int, int], bytes]) -> Ranges:
    """Those parts of the log whose bytes are what an entry says. `read` gives the bytes from one offset to another."""
    ranges = Ranges()
    for entry in sorted(set(entries)):
        if _matches(entry, read):
            ranges.add(entry[0], entry[0] + entry[1])
    return ranges


def _matches(entry: Entry, read: Callable[[int, int], bytes]) -> bool:
    offset, length, checksum = entry
    return length > 0 and crc32(read(offset, offset + length)) == checksum


class Ranges:
    """Parts of the log, in order; those that touch are one."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, begin: int, end: int) -> None:
        """Begins must not go down from one call to the next."""
        if self._ends and begin <= self._ends[-1]:
            self._ends[-1] = max(self._ends[-1], end)
        else:
            self._begins.append(begin)
            self._ends.append(end)

    def cover(self, begin: int, end: int) -> bool:
        at = bisect_right(self._begins, begin) - 1
        return at >= 0 and end <= self._ends[at]
