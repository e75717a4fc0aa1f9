"""The machine's file system, and the threads that wait for it."""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, ParamSpec, TypeVar

from skyrocketmq.errors import StoreLocked
from skyrocketmq.page_cache import PageLock, PageProbe
from skyrocketmq.ports.disk import DiskUsage

__all__ = ["LocalDisk"]

P = ParamSpec("P")
T = TypeVar("T")

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MARK_BYTES_MAX = 4096
_READ_CACHED = getattr(os, "RWF_NOWAIT", 0)  # Linux only; elsewhere a read may wait, which is slower and not wrong
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # not on Windows
_FILE_MODE = 0o640
_SECRET_MODE = 0o600


class LocalFile:
    """An open file of the machine's file system."""

    __slots__ = ("_fd", "_probe", "path")

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._probe: PageProbe | None = None

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def written_bytes(self) -> int:
        end = 0
        try:
            while True:  # what is reserved and not written counts as a hole
                end = os.lseek(self._fd, os.lseek(self._fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            return end if error.errno == errno.ENXIO else self.size()

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]  # a signal or the kernel's limit of 2 GiB may split a read
        have = len(data)
        while have < length and (data := os.pread(self._fd, length - have, position + have)):
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def pread_cached(self, length: int, position: int) -> bytes | None:
        data = bytearray(length)
        try:
            have = os.preadv(self._fd, [data], position, _READ_CACHED)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP):  # not there; or a file system that cannot tell
                return None
            raise
        if have == length or position + have >= self.size():
            return bytes(data) if have == length else bytes(data[:have])
        return None

    def is_cached(self, position: int, length: int) -> bool:
        probe = self._probe
        if probe is None:
            probe = self._probe = PageProbe(self.map(self.size()))
        return probe.has(position, length)

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        if written == len(data):
            return
        view = memoryview(data).cast("B")
        while written < len(view):  # a nearly full disk takes part of a write before it refuses
            done = os.pwrite(self._fd, view[written:], position + written)
            if done == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            written += done

    def allocate(self, length: int) -> None:
        os.posix_fallocate(self._fd, 0, length)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)

    def map(self, length: int, *, writable: bool = False) -> mmap.mmap:
        mapped = mmap.mmap(self._fd, length, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
        if not writable:
            self._probe = PageProbe(mapped)
        return mapped

    def pin(self, length: int) -> Callable[[], None]:
        return PageLock(self._fd, length).release

    def fdatasync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        self._probe = None


class LocalFileLock:
    """A lock on the first byte of a file: the range that Java's broker locks, so that the two exclude each other."""

    _held: ClassVar[set[Path]] = set()  # by this process, which the kernel does not protect from itself

    def __init__(self, path: Path) -> None:
        import fcntl  # not on Windows, where clients run but brokers do not

        self._path = path.resolve()
        if self._path in self._held:
            raise StoreLocked(f"{path} is locked by this process already: choose another directory")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, _FILE_MODE)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(self._fd)
            raise StoreLocked(
                f"{path} is locked by another process: stop the broker on {path.parent}, or choose another directory"
            ) from error
        self._held.add(self._path)

    def read_mark(self) -> bytes:
        return os.pread(self._fd, MARK_BYTES_MAX, 0)

    def write_mark(self, mark: bytes) -> None:
        os.pwrite(self._fd, mark, 0)
        os.ftruncate(self._fd, len(mark))
        os.fsync(self._fd)

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._held.discard(self._path)
            os.close(fd)


class LocalDisk:
    """The machine's file system, with a small pool of threads for what blocks.

    What it makes is for its owner and his group, or, with `is_public`, for everybody: messages are nobody else's.
    """

    def __init__(self, *, threads: int = 4, is_public: bool = False) -> None:
        self._file_mode = 0o644 if is_public else _FILE_MODE
        self._directory_mode = 0o755 if is_public else 0o750
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="disk")

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> LocalFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        return LocalFile(path, os.open(path, flags, self._file_mode))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def list(self, directory: Path) -> Sequence[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def make_directories(self, path: Path) -> None:
        missing = [each for each in (path, *path.parents) if not each.exists()]
        for each in reversed(missing):  # `parents=True` would make those above with another mode
            each.mkdir(self._directory_mode, exist_ok=True)
        if not missing:
            path.mkdir(exist_ok=True)  # a file in its place is an error

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, data: bytes, *, keep_backup: bool = False, is_secret: bool = False) -> None:
        before = path.stat() if path.exists() else None
        if keep_backup and before is not None:
            self._write_whole(path.with_name(path.name + ".bak"), path.read_bytes(), before, _SECRET_MODE)
        self._write_whole(path, data, before, _SECRET_MODE if is_secret else self._file_mode)
        self.sync_directory(path.parent)

    def _write_whole(self, path: Path, data: bytes, like: os.stat_result | None, new_mode: int) -> None:
        temporary = path.with_name(path.name + ".tmp")
        temporary.unlink(missing_ok=True)  # a crash may have left one
        # Others who may write here could have put a link in its place, to have another file written: so it must be new.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, new_mode if like is None else _SECRET_MODE)
        try:
            if like is not None:
                _take_over_access(fd, like)
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_directory(self, path: Path) -> None:
        try:
            path.rmdir()
        except FileNotFoundError:
            pass

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def usage(self, path: Path) -> DiskUsage:
        total, used, free = shutil.disk_usage(path)
        return DiskUsage(total, used, free)

    def lock(self, path: Path) -> LocalFileLock:
        return LocalFileLock(path)

    def session(self) -> str:
        try:
            return BOOT_ID.read_text().strip()
        except OSError:  # not Linux, or hidden from us
            return ""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=True)


def _take_over_access(fd: int, like: os.stat_result) -> None:
    """Give a new file the owner and the mode of the one that it replaces, as far as we may."""
    if not hasattr(os, "fchown"):
        return  # Windows has neither
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(fd, like.st_uid, like.st_gid)
        except PermissionError:
            # The bits for a group would be for another group now.
            os.fchmod(fd, stat.S_IMODE(like.st_mode) & ~0o070)
            return
    os.fchmod(fd, stat.S_IMODE(like.st_mode))
