"""The doors to the outside: time, disk and network, as protocols, each with its real form.

Code that waits, reads a clock, touches a file or opens a connection takes one of these in its constructor and uses
nothing else, so that `skyrocketmq.testing` can put a clock that jumps, a disk that loses power and a link that is cut
in their place. Two rules follow:

1. Nothing outside this module (and `testing`) calls `time.*`, `open`, `asyncio.sleep` or `asyncio.timeout`.
2. A call that may block on the device (`File.fdatasync`, `File.allocate`, cold reads, deleting, `Disk.replace`) is made
   inside `await disk.run(...)`; calls into the page cache (`pwrite` at the tail, warm maps) are made in place.
"""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, runtime_checkable

from skyrocketmq.errors import StoreLocked
from skyrocketmq.page_cache import PageLock, PageProbe

__all__ = [
    "Clock",
    "Disk",
    "DiskUsage",
    "File",
    "FileLock",
    "Link",
    "LocalDisk",
    "SystemClock",
    "TcpLink",
    "Timer",
    "every",
    "pause",
]

P = ParamSpec("P")
T = TypeVar("T")

_READ_CACHED = getattr(os, "RWF_NOWAIT", 0)  # Linux only; elsewhere a read may wait, which is slower and not wrong


# ---------------------------------------------------------------------------------------------------------------- time


class Timer(Protocol):
    """A call that is yet to come."""

    def cancel(self) -> None: ...


@runtime_checkable
class Clock(Protocol):
    """Wall time for what is stored and shown, monotonic time for what is measured, and every way to wait."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as the protocol and the files write them."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Cancel the body and raise `TimeoutError` once `seconds` have passed; `None` means never."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back on the loop after `seconds`, without a task."""
        ...


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


def pause(seconds: float) -> None:
    """Wait where there is no loop: in a task of Spark's, which is one thread and waits for nothing else."""
    time.sleep(seconds)


async def every(
    seconds: float,
    work: Callable[[], Awaitable[object] | object],
    *,
    clock: Clock,
    first_after: float | None = None,
    on_error: Callable[[Exception], object],
) -> None:
    """Run `work` for ever, `seconds` after its last run ended; a failed run goes to `on_error` and is not the last.

    Cancel the task that runs this to stop it.
    """
    await clock.sleep(seconds if first_after is None else first_after)
    while True:
        try:
            outcome = work()
            if isinstance(outcome, Awaitable):
                await outcome
        except Exception as error:
            on_error(error)
        await clock.sleep(seconds)


# ---------------------------------------------------------------------------------------------------------------- disk


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

    def replace(self, path: Path, data: bytes, *, keep_backup: bool = False) -> None:
        """Put `data` at `path` so that a power cut leaves the old content or the new, whole, never a mixture.

        With `keep_backup` the old content is kept beside it as `.bak`, as Apache's brokers keep theirs. Blocks.
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

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in one of the disk's threads."""
        ...

    def close(self) -> None: ...


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
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(self._fd)
            raise StoreLocked(
                f"{path} is locked by another process: stop the broker on {path.parent}, or choose another directory"
            ) from error
        os.pwrite(self._fd, b"lock", 0)
        self._held.add(self._path)

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._held.discard(self._path)
            os.close(fd)


class LocalDisk:
    """The machine's file system, with a small pool of threads for what blocks."""

    def __init__(self, *, threads: int = 4) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="disk")

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> LocalFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        return LocalFile(path, os.open(path, flags, 0o644))

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
        path.mkdir(parents=True, exist_ok=True)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, data: bytes, *, keep_backup: bool = False) -> None:
        if keep_backup and path.exists():
            self._write_whole(path.with_name(path.name + ".bak"), path.read_bytes())
        self._write_whole(path, data)
        self.sync_directory(path.parent)

    def _write_whole(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
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

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=True)


# ---------------------------------------------------------------------------------------------------------------- link


@runtime_checkable
class Link(Protocol):
    """The network: connections out and listeners in, for `asyncio` protocols."""

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]: ...

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], sock: socket.socket, *, backlog: int
    ) -> asyncio.AbstractServer:
        """Accept on a socket that is bound already: binding comes first, because a broker's ports come in threes."""
        ...


class TcpLink:
    """TCP of the machine, without Nagle's delay, as every member of the family sets it."""

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        transport, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        set_no_delay(transport)
        return transport, protocol

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], sock: socket.socket, *, backlog: int
    ) -> asyncio.AbstractServer:
        return await asyncio.get_running_loop().create_server(factory, sock=sock, backlog=backlog)


def set_no_delay(transport: asyncio.BaseTransport) -> None:
    """Answers leave when they are written, not when the peer acknowledges the one before."""
    sock: Any = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
