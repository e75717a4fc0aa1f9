"""Disks and files, as protocols; `local_disk` has the machine's, `skyrocketmq.testing` one that fails."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar, runtime_checkable

__all__ = ["Disk", "DiskUsage", "File", "FileLock"]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Space of the partition that holds a path, in bytes."""

    total_bytes: int
    used_bytes: int
    free_bytes: int  # for us: what is kept for root is neither free nor used

    @property
    def used_ratio(self) -> float:
        """How full it is, rounded up to a whole percent: what `df` says, and Apache's broker acts on."""
        usable_bytes = self.used_bytes + self.free_bytes
        return -(-self.used_bytes * 100 // usable_bytes) / 100 if usable_bytes else 0.0


@runtime_checkable
class File(Protocol):
    """One open file. Positions are absolute; there is no cursor."""

    @property
    def path(self) -> Path: ...

    def size(self) -> int: ...

    def written_bytes(self) -> int:
        """Where the part ends that was ever written; zeros follow. The size, where the file system does not know."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """The same without waiting for the device: None if the page cache does not hold all of it."""
        ...

    def is_cached(self, position: int, length: int) -> bool:
        """Whether the page cache holds all of it now: a map of the file is then read without waiting. May say no."""
        ...

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data`, or raise `OSError`."""
        ...

    def allocate(self, length: int) -> None:
        """Make the file `length` bytes long with its blocks reserved: a full disk is an error here, never later."""
        ...

    def truncate(self, length: int) -> None: ...

    def map(self, length: int, *, writable: bool = False) -> mmap.mmap:
        """Map the first `length` bytes. The caller closes the map; the file may be closed before it."""
        ...

    def pin(self, length: int) -> Callable[[], None]:
        """Lock the first `length` bytes in memory until the returned function is called. Blocks; raises `OSError`."""
        ...

    def fdatasync(self) -> None:
        """Make everything written so far durable, mapped pages included. Blocks: call it through `Disk.run`."""
        ...

    def close(self) -> None: ...


class FileLock(Protocol):
    """An exclusive lock on a file, held until `release` or the end of the process."""

    def read_mark(self) -> bytes:
        """What the last holder wrote into the file; Apache's brokers write `lock`."""
        ...

    def write_mark(self, mark: bytes) -> None:
        """Write it there, and make it durable. The file is read and written only here: to close it would unlock it."""
        ...

    def release(self) -> None: ...


@runtime_checkable
class Disk(Protocol):
    """A file system and a few threads to wait for it."""

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File: ...

    def exists(self, path: Path) -> bool: ...

    def list(self, directory: Path) -> Sequence[str]:
        """The names in a directory, sorted; empty where there is no such directory."""
        ...

    def is_directory(self, path: Path) -> bool: ...

    def make_directories(self, path: Path) -> None: ...

    def read(self, path: Path) -> bytes: ...

    def replace(self, path: Path, data: bytes, *, keep_backup: bool = False, is_secret: bool = False) -> None:
        """Put `data` at `path` so that a power cut leaves the old content or the new, whole, never a mixture.

        With `keep_backup` the old content is kept beside it as `.bak`, as Apache's brokers keep theirs. Both keep
        the old file's owner and mode; where there was none, a file that `is_secret` is for its owner alone. Blocks.
        """
        ...

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path) -> None:
        """Delete a file; one that is gone already is no error."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Delete an empty directory; one that is gone already is no error."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Make creations, renames and deletions in a directory durable. Blocks."""
        ...

    def modified_ms(self, path: Path) -> int: ...

    def usage(self, path: Path) -> DiskUsage: ...

    def lock(self, path: Path) -> FileLock:
        """Take the exclusive lock on a file, creating it; raise `StoreLocked` if another process has it."""
        ...

    def session(self) -> str:
        """Changes when what was written and not synced may be lost: with each start of the machine. Empty: unknown."""
        ...

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in one of the disk's threads."""
        ...

    def close(self) -> None: ...
