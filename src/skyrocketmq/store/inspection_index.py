"""The index beside the log: its entries are those of the log's keys, in the order of the log, and can be found.

Entries stand one after the other, file after file, as the messages do, so both are read once from front to back and
compared step by step.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from sys import byteorder
from typing import Final

from skyrocketmq.config import StoreConfig
from skyrocketmq.hot.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SLOT_BYTES
from skyrocketmq.ports import Disk, File
from skyrocketmq.store.index import NAME_DIGITS
from skyrocketmq.store.index_file import ENTRY, HEADER, IndexLayout

__all__ = ["IndexCheck"]

STEP: Final = 10_000  # entries read at once


class IndexCheck:
    """The whole index. Feed it every key of the log in order, then `finish`. Blocks."""

    def __init__(self, disk: Disk, directory: Path, config: StoreConfig) -> None:
        self.file_count = 0
        self.entry_count = 0
        self.where = ""
        self.is_merely_late = False  # nothing is wrong but that the newest messages are not in it
        self._disk = disk
        self._directory = directory
        self._layout = IndexLayout(slot_count=config.index_slot_count, entry_count=config.index_entry_count)
        self._names = [
            name for name in disk.list(directory) if len(name) == NAME_DIGITS and name.isascii() and name.isdecimal()
        ]
        self.missing_from = 0  # log offset of the first of these
        self._trouble = ""
        self._missing = 0
        self._entries = self._all_entries()

    def begin(self, log_begin: int, bad: Sequence[tuple[int, int]]) -> None:
        """Pass over the entries of messages that the log has no more, also those in its `bad` stretches, which grow."""
        self._log_begin = log_begin
        self._bad = bad
        self._next = self._take()

    def check(self, key_hash: int, log_offset: int) -> None:
        """The next key of the log."""
        if self._trouble:
            return
        while self._next is not None and self._next[1] < log_offset and self._is_in_bad(self._next[1]):
            self._next = self._take()
        found = self._next
        if found == (key_hash, log_offset):
            self._next = self._take()
        elif found is None:
            self.missing_from = self.missing_from if self._missing else log_offset
            self._missing += 1
        else:
            self._trouble = f"the entry of the message at {log_offset} is missing, that of {found[1]} stands there"

    def finish(self, log_end: int) -> str:
        """What is wrong, in words; empty if nothing is."""
        while self._next is not None:  # also so that the rest is read and counted
            if not self._trouble and not self._is_in_bad(self._next[1]):
                what = "behind the end of" if self._next[1] >= log_end else "that is not in"
                self._trouble = f"an entry leads to a message at {self._next[1]}, {what} the log"
            self._next = self._take()
        if not self._trouble and self._missing:
            self.is_merely_late = True
            return f"{self._missing} keys of the newest messages are not in it"
        return self._trouble

    def _is_in_bad(self, log_offset: int) -> bool:
        return any(begin <= log_offset < end for begin, end in self._bad)

    def _take(self) -> tuple[int, int] | None:
        for key_hash, log_offset in self._entries:
            if log_offset >= self._log_begin:
                return key_hash, log_offset
        return None

    def _all_entries(self) -> Iterator[tuple[int, int]]:
        for name in self._names:
            self.where = name
            self.file_count += 1
            file = self._disk.open(self._directory / name, writable=False)
            try:
                yield from self._entries_of(file)
            finally:
                file.close()

    def _entries_of(self, file: File) -> Iterator[tuple[int, int]]:
        layout = self._layout
        if file.size() != layout.file_bytes:
            self._trouble = self._trouble or f"it has {file.size()} bytes, the settings say {layout.file_bytes}"
            return
        *_, count = HEADER.unpack(file.pread(INDEX_HEADER_BYTES, 0))
        if not 0 <= count <= layout.entry_count:
            self._trouble = self._trouble or f"its header says that it holds {count} entries"
            return
        slots = array("i", bytes(INDEX_SLOT_BYTES * layout.slot_count))
        number = 1
        while number < count:
            length = min(STEP, count - number) * INDEX_ENTRY_BYTES
            for key_hash, log_offset, _, previous in ENTRY.iter_unpack(
                file.pread(length, layout.entries_at + INDEX_ENTRY_BYTES * number)
            ):
                slot = key_hash % layout.slot_count
                if previous != slots[slot] and not self._trouble:
                    self._trouble = f"entry {number} is not linked to the one before it: a search would miss messages"
                slots[slot] = number
                self.entry_count += 1
                yield key_hash, log_offset
                number += 1
        on_disk = array("i", file.pread(INDEX_SLOT_BYTES * layout.slot_count, INDEX_HEADER_BYTES))
        if byteorder == "little":
            on_disk.byteswap()
        if on_disk != slots and not self._trouble:
            self._trouble = "its slots do not lead to the newest entries: a search would miss messages"
