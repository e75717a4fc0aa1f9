"""The content of one file of a `FaultyDisk`: what programs see, and what a power cut leaves.

What programs see lives in anonymous memory with a descriptor, so that several maps and `pwrite` share it as they share
a page cache. What is durable is kept beside it as pages of 4 KiB. Writes through a map cannot be watched, so whatever
was ever mapped for writing is compared page by page when it matters.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from random import Random

__all__ = ["PAGE_BYTES", "Choose", "FileContent", "random_choice"]

PAGE_BYTES = 4096
_ZEROS = bytes(PAGE_BYTES)

Choose = Callable[[int], int]
"""Picks one of n outcomes by its number. Outcome 0 loses what was not synced, outcome 1 keeps it."""


class FileContent:
    """One file's bytes, visible and durable. The name and the directory it stands in are not its concern."""

    def __init__(self, *, modified_ms: int) -> None:
        self.modified_ms = modified_ms
        self.open_count = 0
        self._fd = _anonymous_file()
        self._close = weakref.finalize(self, os.close, self._fd)
        self._durable: dict[int, bytes] = {}  # pages that are not all zero
        self._durable_size = 0
        self._dirty: set[int] = set()  # pages that pwrite and truncate may have changed since the last sync
        self._mapped_bytes = 0  # the part that writable maps may have changed at any time
        self._doomed: dict[int, bytes] = {}  # pages whose sync failed: the kernel takes them for clean
        self._cold: set[int] = set()  # pages that the page cache does not hold
        self._reserved_pages = 0  # the first pages of the file, reserved by allocate
        self._written_pages: set[int] = set()  # pages that take space beyond those

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    @property
    def used_bytes(self) -> int:
        return (self._reserved_pages + len(self._written_pages)) * PAGE_BYTES

    def read(self, length: int, position: int) -> bytes:
        self._cold.difference_update(_pages(position, position + length))
        return os.pread(self._fd, length, position)

    def read_cached(self, length: int, position: int) -> bytes | None:
        """What `read` gives, if no page of it has to come from the device."""
        return os.pread(self._fd, length, position) if self.is_cached(position, length) else None

    def is_cached(self, position: int, length: int) -> bool:
        """Whether no page of that range has to come from the device."""
        return self._cold.isdisjoint(_pages(position, position + length))

    def cool(self) -> None:
        """Drop the file from the page cache; reading a page brings it back."""
        self._cold = set(_pages(0, self.size))

    def write(self, data: memoryview, position: int) -> None:
        if data:
            os.pwrite(self._fd, data, position)
            pages = set(_pages(position, position + len(data)))
            self._dirty |= pages
            self._cold -= pages
            for page in pages:
                self._doomed.pop(page, None)  # also if the bytes are the same: they will be written again
            self._written_pages |= {page for page in pages if page >= self._reserved_pages}

    def pages_needed(self, start: int, end: int) -> int:
        """How many pages a write of that range would take from the free space."""
        return sum(1 for page in _pages(start, end) if page >= self._reserved_pages and page not in self._written_pages)

    def reserve(self, length: int) -> None:
        if length > self.size:
            os.ftruncate(self._fd, length)
        self._reserved_pages = max(self._reserved_pages, -(-length // PAGE_BYTES))
        self._written_pages = {page for page in self._written_pages if page >= self._reserved_pages}

    def truncate(self, length: int) -> None:
        self._dirty |= set(_pages(length, max(self.size, self._durable_size)))
        os.ftruncate(self._fd, length)
        last = -(-length // PAGE_BYTES)
        self._reserved_pages = min(self._reserved_pages, last)
        self._written_pages = {page for page in self._written_pages if page < last}

    def map(self, length: int, *, writable: bool) -> mmap.mmap:
        mapped = mmap.mmap(self._fd, length, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
        if writable:
            self._mapped_bytes = max(self._mapped_bytes, len(mapped))
        return mapped

    def sync(self) -> None:
        """Everything visible is durable now, but for pages that a failed sync has doomed and nobody wrote again."""
        for page, data in self._changed_pages():
            if self._doomed.get(page) != data:
                self._doomed.pop(page, None)
                self._durable[page] = data
        self._durable_size = self.size
        self._durable = {page: data for page, data in self._durable.items() if page * PAGE_BYTES < self._durable_size}
        self._dirty = set(self._doomed)

    def fail_sync(self) -> None:
        """A sync that reports an error drops the pages it could not write: the next one will not try them again."""
        self._doomed.update(self._changed_pages())

    def freeze(self) -> None:
        """Keep the moment the power goes: maps that programs still hold write into the memory from before."""
        frozen = _anonymous_file()
        os.ftruncate(frozen, self.size)
        for start in range(0, self.size, _COPY_BYTES):
            data = os.pread(self._fd, _COPY_BYTES, start)
            if data.count(0) != len(data):  # holes stay holes
                os.pwrite(frozen, data, start)
        self._close()
        self._fd = frozen
        self._close = weakref.finalize(self, os.close, frozen)

    def after_power_loss(self, choose: Choose) -> FileContent:
        """What is found when the power is back: synced bytes, and of each other page whatever `choose` picks.

        A page may be lost, kept, or torn: new up to some byte and old after it, or the other way round. Pages are
        chosen one by one, so a later write may survive an earlier one. The length is the old one, the new one, or,
        where a file grew, any between.
        """
        pages = dict(self._durable)
        for page, new in self._changed_pages():
            pages[page] = _chosen_page(pages.get(page, _ZEROS), new, choose)
        size = _chosen_size(self._durable_size, self.size, choose)
        survivor = FileContent(modified_ms=self.modified_ms)
        os.ftruncate(survivor._fd, size)
        for page, data in pages.items():
            start = page * PAGE_BYTES
            if start < size:
                os.pwrite(survivor._fd, data[: size - start], start)
        survivor._reserved_pages = min(self._reserved_pages, -(-size // PAGE_BYTES))
        survivor._mapped_bytes = size  # so that the sync below looks at everything
        survivor.sync()
        survivor._mapped_bytes = 0
        survivor.cool()  # a machine that starts has an empty page cache
        return survivor

    def _changed_pages(self) -> Iterator[tuple[int, bytes]]:
        """Pages whose visible content is not the durable one, padded with zeros to a whole page."""
        size = self.size
        for page in sorted(self._dirty.union(_pages(0, min(self._mapped_bytes, size)))):
            data = os.pread(self._fd, PAGE_BYTES, page * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")
            if data != self._durable.get(page, _ZEROS):
                yield page, data


_COPY_BYTES = 256 * PAGE_BYTES


def random_choice(seed: int) -> Choose:
    """Outcomes by a seed. Each crash has a leaning of its own, so that nearly all lost and nearly all kept come too."""
    random = Random(seed)
    weights = (random.random(), random.random(), 0.3)

    def choose(count: int) -> int:
        if count > len(weights):
            return random.randrange(count)
        return random.choices(range(count), weights[:count])[0]

    return choose


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("faulty-disk")
    with tempfile.TemporaryFile() as file:  # macOS has no memory files; a deleted one behaves alike
        return os.dup(file.fileno())


def _pages(start: int, end: int) -> range:
    return range(start // PAGE_BYTES, -(-end // PAGE_BYTES))


def _chosen_page(old: bytes, new: bytes, choose: Choose) -> bytes:
    outcome = choose(3)
    if outcome < 2:
        return (old, new)[outcome]
    cut = choose(PAGE_BYTES)
    first, second = (new, old) if choose(2) else (old, new)
    return first[:cut] + second[cut:]


def _chosen_size(old: int, new: int, choose: Choose) -> int:
    if new == old:
        return new
    outcome = choose(3 if new > old else 2)
    return old + choose(new - old) if outcome == 2 else (old, new)[outcome]
