"""A disk in memory that fails, fills, stalls and loses power when a test says so.

    disk = FaultyDisk(directories=[ROOT], crash_at=17)          # the power goes at the 18th call that changes something
    try:
        append_until_crash(disk)
    except PowerLost:
        pass
    recovered = open_store(disk.after_power_loss(seed=5))       # synced bytes, and some of the others

Rule 1: nothing is durable but what was synced: contents by `fdatasync`, names by `sync_directory`. Everything else may
be there after a power cut, or not, or in part, page by page and name by name.
Rule 2: the same calls with the same seed give the same disk.
Rule 3: while nothing is asked of it, it behaves like `LocalDisk`; a test compares the two over random operations.
"""

from __future__ import annotations

import asyncio
import errno
import mmap
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ParamSpec, TypeVar

from skyrocketmq.errors import StoreLocked
from skyrocketmq.ports import Clock, DiskUsage
from skyrocketmq.testing.disk_content import PAGE_BYTES, FileContent, random_choice
from skyrocketmq.testing.disk_faults import DiskCall, PowerLost, Troubles, disk_error
from skyrocketmq.testing.disk_tree import Directory, DiskTree

__all__ = ["DiskCall", "FaultyDisk", "FaultyFile", "PowerLost"]

P = ParamSpec("P")
T = TypeVar("T")

TOTAL_BYTES = 1 << 40  # the size of a disk whose capacity nobody limits
START_MS = 1_700_000_000_000

_READS = frozenset(
    {
        "open",
        "exists",
        "list",
        "is_directory",
        "read",
        "pread",
        "pread_cached",
        "is_cached",
        "map",
        "pin",
        "modified_ms",
        "usage",
    }
)


class FaultyFile:
    """An open file of a `FaultyDisk`."""

    def __init__(self, disk: FaultyDisk, path: Path, content: FileContent, *, writable: bool) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._writable = writable
        self._open = True
        content.open_count += 1

    @property
    def path(self) -> Path:
        return self._path

    def size(self) -> int:
        return self._checked().size

    def written_bytes(self) -> int:
        return self.size()

    def pread(self, length: int, position: int) -> bytes:
        content = self._checked()
        _raise(self._disk._enter("pread", self._path))
        return content.read(length, position)

    def pread_cached(self, length: int, position: int) -> bytes | None:
        content = self._checked()
        _raise(self._disk._enter("pread_cached", self._path))
        return content.read_cached(length, position)

    def is_cached(self, position: int, length: int) -> bool:
        content = self._checked()
        _raise(self._disk._enter("is_cached", self._path))
        return content.is_cached(position, length)

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        content = self._checked(to_write=errno.EBADF)
        view = memoryview(data).cast("B")
        error = self._disk._enter("pwrite", self._path)
        if error is not None:  # a write that fails may have done a part of its work
            content.write(view[: int(len(view) * self._disk._written_share)], position)
            raise error
        self._disk._write(self._path, content, view, position)

    def allocate(self, length: int) -> None:
        if length <= 0 and self._open:
            raise disk_error(errno.EINVAL, self._path)
        content = self._checked(to_write=errno.EBADF)
        _raise(self._disk._enter("allocate", self._path))
        self._disk._reserve(self._path, content, length)
        content.modified_ms = self._disk._now_ms()

    def truncate(self, length: int) -> None:
        content = self._checked(to_write=errno.EINVAL)
        _raise(self._disk._enter("truncate", self._path))
        content.truncate(length)
        content.modified_ms = self._disk._now_ms()

    def map(self, length: int, *, writable: bool = False) -> mmap.mmap:
        content = self._checked()
        _raise(self._disk._enter("map", self._path))
        mapped = content.map(length, writable=writable and self._writable)
        if writable and not self._writable:
            mapped.close()
            raise disk_error(errno.EACCES, self._path)
        return mapped

    def pin(self, length: int) -> Callable[[], None]:
        content = self._checked()
        _raise(self._disk._enter("pin", self._path))
        content.read(length, 0)
        self._disk.pinned.append(self._path)
        return lambda: self._disk.pinned.remove(self._path)

    def fdatasync(self) -> None:
        content = self._checked()
        error = self._disk._enter("fdatasync", self._path)
        if error is not None:
            content.fail_sync()
            raise error
        content.sync()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._content.open_count -= 1
            self._disk._forget_if_gone(self._content)

    def _checked(self, *, to_write: int | None = None) -> FileContent:
        if not self._open:
            raise disk_error(errno.EBADF, self._path)
        if to_write is not None and not self._writable:
            raise disk_error(to_write, self._path)
        return self._content


class FaultyLock:
    """A lock on a file of a `FaultyDisk`."""

    def __init__(self, held: set[Path], path: Path, file: FaultyFile) -> None:
        self._held = held
        self._path: Path | None = path
        self._file = file
        held.add(path)

    def read_mark(self) -> bytes:
        return self._file.pread(self._file.size(), 0)

    def write_mark(self, mark: bytes) -> None:
        self._file.pwrite(mark, 0)
        if self._file.size() > len(mark):
            self._file.truncate(len(mark))
        self._file.fdatasync()

    def release(self) -> None:
        if self._path is not None:
            self._held.discard(self._path)
            self._path = None
            self._file.close()


class FaultyDisk:
    """A `Disk` for tests. Everything runs on the caller's thread, `run` included.

    `directories` exist from the start and survive a power cut. `capacity_bytes` limits the space. `sync_seconds` is
    what a sync takes on `clock`, for the caller of `run`. `crash_at` is the number of calls that change something
    before the power goes; it may be set later, `calls` tells how many there were.
    """

    def __init__(
        self,
        *,
        directories: Iterable[Path] = (),
        capacity_bytes: int | None = None,
        clock: Clock | None = None,
        sync_seconds: float = 0.0,
        crash_at: int | None = None,
    ) -> None:
        assert clock is not None or not sync_seconds, "a sync that takes time needs a clock"
        self.capacity_bytes = capacity_bytes
        self.crash_at = crash_at
        self.calls: list[DiskCall] = []  # those that change something, in order
        self.pinned: list[Path] = []  # files that are locked in memory
        self.is_powered = True
        self._clock = clock
        self._sync_seconds = sync_seconds
        self._seconds_due = 0.0  # what the calls inside one `run` have taken
        self._tree = DiskTree()
        self._nameless: set[FileContent] = set()  # deleted, but still open: they take space
        self._locks: set[Path] = set()
        self._troubles = Troubles()
        self._session = 1  # how often there was power
        self._written_share = 0.5  # of a write that fails
        for directory in directories:
            self._tree.make_directories(directory)
            for ancestor in (directory, *directory.parents):
                self._tree.sync(ancestor)

    def fail(
        self,
        operation: str,
        *,
        error: int = errno.EIO,
        path: str = "*",
        after: int = 0,
        times: int | None = 1,
        written: float = 0.5,
    ) -> None:
        """Let `operation` on paths that match fail with an error number, after so many good calls, so many times.

        A `pwrite` that fails has written a share of its bytes all the same, `written`, from none (0) to all (1). An
        `fdatasync` that fails drops what it should have written: a later one that succeeds says nothing about it.
        """
        self._troubles.order(operation, path, after=after, times=times, error=error, written=written)

    def stall(self, operation: str, *, seconds: float, path: str = "*", after: int = 0, times: int | None = 1) -> None:
        """Let `operation` take so long on the clock, for whoever waits for the `run` that it is part of."""
        assert self._clock is not None, "a disk that stalls needs a clock"
        self._troubles.order(operation, path, after=after, times=times, seconds=seconds)

    def heal(self) -> None:
        """No more failures and delays."""
        self._troubles.clear()

    def cool(self, path: str = "*") -> None:
        """Empty the page cache of the files that match: `pread_cached` has nothing until `pread` has read it again."""
        for file in self._tree.paths():
            if fnmatchcase(str(file), path):
                self._tree.file(file).cool()

    def count(self, operation: str, path: str = "*") -> int:
        """How many calls of `operation` were made on paths that match."""
        return sum(1 for call in self.calls if call.matches(operation, path))

    def cut_power(self) -> None:
        """From here on every call raises `PowerLost`."""
        if self.is_powered:
            self.is_powered = False
            for content in self._tree.files():
                content.freeze()

    def after_power_loss(self, seed: int | None = None, *, keep: bool = False) -> FaultyDisk:
        """The disk that is found when the power is back; it has no troubles and all its locks are free.

        What was not synced is chosen by `seed`; without one all of it is lost, or with `keep` all of it is there, as
        after a kill (`after_kill`). May be called several times for one power cut.
        """
        self.cut_power()
        choose = random_choice(seed) if seed is not None else lambda count: int(keep)
        survivor = self._like()
        survivor._tree = self._tree.after_power_loss(choose)
        survivor._session = self._session if keep and seed is None else self._session + 1
        return survivor

    def after_kill(self) -> FaultyDisk:
        """The disk that the next process finds when the one before was killed: all that was written is there.

        The calls of the killed process raise `PowerLost` from now on.
        """
        return self.after_power_loss(keep=True)

    def _like(self) -> FaultyDisk:
        """An empty disk of the same make."""
        return FaultyDisk(capacity_bytes=self.capacity_bytes, clock=self._clock, sync_seconds=self._sync_seconds)

    def release_locks(self) -> None:
        """The process that used it was killed: the kernel has taken its locks back, and nothing else has changed."""
        self._locks.clear()

    def for_next_process(self) -> FaultyDisk:
        """The same after a kill, and what was not synced is still to be lost: once, and this disk is not used again."""
        self.cut_power()
        survivor = FaultyDisk(capacity_bytes=self.capacity_bytes, clock=self._clock, sync_seconds=self._sync_seconds)
        survivor._tree, survivor._session = self._tree, self._session
        return survivor

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Make a file look old."""
        self._tree.file(path).modified_ms = modified_ms

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> FaultyFile:
        _raise(self._enter("open", path))
        if create and self._tree.find(path) is None:
            _raise(self._enter("create", path))
            self._tree.add(path, FileContent(modified_ms=self._now_ms()))
        return FaultyFile(self, path, self._tree.file(path), writable=writable)

    def exists(self, path: Path) -> bool:
        _raise(self._enter("exists", path))
        return self._find_or_none(path) is not None

    def list(self, directory: Path) -> Sequence[str]:
        _raise(self._enter("list", directory))
        if self._tree.find(directory) is None:
            return []
        return sorted(self._tree.directory(directory).entries)

    def is_directory(self, path: Path) -> bool:
        _raise(self._enter("is_directory", path))
        return isinstance(self._find_or_none(path), Directory)

    def make_directories(self, path: Path) -> None:
        if self.is_powered and isinstance(self._find_or_none(path), Directory):
            return
        _raise(self._enter("make_directories", path))
        self._tree.make_directories(path)

    def read(self, path: Path) -> bytes:
        _raise(self._enter("read", path))
        content = self._tree.file(path)
        return content.read(content.size, 0)

    def replace(self, path: Path, data: bytes, *, keep_backup: bool = False, is_secret: bool = False) -> None:
        """The steps of `LocalDisk`, each a call of its own, so that the power may go between any two."""
        if keep_backup and self.exists(path):
            self._write_whole(path.with_name(path.name + ".bak"), self.read(path))
        self._write_whole(path, data)
        self.sync_directory(path.parent)

    def _write_whole(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        try:
            if file.size():
                file.truncate(0)
            file.pwrite(data, 0)
            file.fdatasync()
        finally:
            file.close()
        self.rename(temporary, path)

    def rename(self, source: Path, target: Path) -> None:
        _raise(self._enter("rename", source))
        replaced = self._tree.rename(source, target)
        if isinstance(replaced, FileContent):
            self._keep_while_open(replaced)

    def unlink(self, path: Path) -> None:
        _raise(self._enter("unlink", path))
        if (content := self._tree.unlink(path)) is not None:
            self._keep_while_open(content)

    def remove_directory(self, path: Path) -> None:
        _raise(self._enter("remove_directory", path))
        self._tree.remove_directory(path)

    def sync_directory(self, path: Path) -> None:
        _raise(self._enter("sync_directory", path))
        self._tree.sync(path)

    def modified_ms(self, path: Path) -> int:
        _raise(self._enter("modified_ms", path))
        node = self._tree.find(path)
        return START_MS if isinstance(node, Directory) else self._tree.file(path).modified_ms

    def usage(self, path: Path) -> DiskUsage:
        _raise(self._enter("usage", path))
        if self._tree.find(path) is None:
            raise disk_error(errno.ENOENT, path)
        total, used = self.capacity_bytes or TOTAL_BYTES, self._used_bytes()
        return DiskUsage(total, used, max(total - used, 0))

    def lock(self, path: Path) -> FaultyLock:
        if path in self._locks:
            raise StoreLocked(f"{path} is locked: stop the broker on {path.parent}, or choose another directory")
        return FaultyLock(self._locks, path, self.open(path, create=True))

    def session(self) -> str:
        return f"session {self._session}"

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call at once; whoever waits for it goes on after the time it took on the clock.

        The work is done before the time passes, so what is written meanwhile is not part of a sync under way.
        """
        self._seconds_due = 0.0
        try:
            return function(*args, **kwargs)
        finally:
            seconds, self._seconds_due = self._seconds_due, 0.0
            if self._clock is not None and seconds:
                await self._clock.sleep(seconds)
            else:
                await asyncio.sleep(0)  # a real disk never answers before the loop has turned

    def close(self) -> None:
        """Nothing to stop: there are no threads, and memory goes with the disk."""

    def _enter(self, operation: str, path: Path) -> OSError | None:
        """Count a call, lose power if it is time, and give the error that the call should end with."""
        call = DiskCall(operation, path)
        if self.is_powered and operation not in _READS:
            if self.crash_at is not None and len(self.calls) >= self.crash_at:
                self.cut_power()
            else:
                self.calls.append(call)
        if not self.is_powered:
            raise PowerLost(f"{operation} of {path}")
        if operation in ("fdatasync", "sync_directory"):
            self._seconds_due += self._sync_seconds
        outcome = self._troubles.meet(call)
        self._seconds_due += outcome.seconds
        self._written_share = outcome.written
        return outcome.error

    def _write(self, path: Path, content: FileContent, view: memoryview, position: int) -> None:
        """Write, or on a full disk write what fits and raise, as the kernel does."""
        content.modified_ms = self._now_ms()
        fitting = self._fitting_bytes(content, position, len(view))
        content.write(view[:fitting], position)
        if fitting < len(view):
            raise disk_error(errno.ENOSPC, path)

    def _reserve(self, path: Path, content: FileContent, length: int) -> None:
        if self._fitting_bytes(content, 0, length) < length:
            raise disk_error(errno.ENOSPC, path)
        content.reserve(length)

    def _fitting_bytes(self, content: FileContent, position: int, length: int) -> int:
        """How much of a write finds space."""
        if self.capacity_bytes is None:
            return length
        free_pages = (self.capacity_bytes - self._used_bytes()) // PAGE_BYTES
        missing_pages = content.pages_needed(position, position + length) - free_pages
        if missing_pages <= 0:
            return length
        last_page = (position + length - 1) // PAGE_BYTES
        return max((last_page + 1 - missing_pages) * PAGE_BYTES - position, 0)

    def _used_bytes(self) -> int:
        named = map(self._tree.file, self._tree.paths())
        return sum(content.used_bytes for content in (*named, *self._nameless))

    def _keep_while_open(self, content: FileContent) -> None:
        if content.open_count:
            self._nameless.add(content)

    def _forget_if_gone(self, content: FileContent) -> None:
        if not content.open_count:
            self._nameless.discard(content)

    def _find_or_none(self, path: Path) -> FileContent | Directory | None:
        try:
            return self._tree.find(path)
        except NotADirectoryError:
            return None

    def _now_ms(self) -> int:
        return self._clock.now_ms() if self._clock is not None else START_MS + len(self.calls)


def _raise(error: OSError | None) -> None:
    if error is not None:
        raise error
