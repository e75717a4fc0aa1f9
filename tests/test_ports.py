"""The real forms of the ports: the machine's clock, file system and network."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from skyrocketmq.errors import NetError, StoreLocked
from skyrocketmq.ports import (
    Chance,
    Clock,
    Disk,
    DiskUsage,
    File,
    Link,
    LocalDisk,
    LocalMachine,
    Machine,
    SystemChance,
    SystemClock,
    TcpLink,
    every,
)
from skyrocketmq.testing import ManualClock

PAGE = 4096


@pytest.fixture
def disk() -> Iterator[LocalDisk]:
    disk = LocalDisk(threads=2)
    yield disk
    disk.close()


def spied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Which calls of the system make something durable, and on what, in order."""
    calls: list[tuple[str, str]] = []

    def name_of(fd: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{fd}")).name

    def sync(name: str, real: Callable[[int], None], fd: int) -> None:
        calls.append((name, name_of(fd)))
        real(fd)

    def rename(old: Path, new: Path) -> None:
        calls.append(("replace", Path(new).name))
        replace(old, new)

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, partial(sync, name, getattr(os, name)))
    replace = os.replace
    monkeypatch.setattr(os, "replace", rename)
    return calls


class TestLocalDisk:
    def test_it_is_a_disk(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(tmp_path / "a", create=True)
        assert isinstance(disk, Disk)
        assert isinstance(file, File)
        file.close()

    def test_a_file_is_written_and_read_at_any_position(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(tmp_path / "a", create=True)
        file.pwrite(b"world", 6)
        file.pwrite(memoryview(b"hello "), 0)
        assert file.pread(100, 0) == b"hello world"
        assert file.pread(5, 6) == b"world"
        assert file.pread(5, 100) == b""
        assert file.pread_cached(5, 6) in (b"world", None)  # the kernel may have dropped it
        assert file.size() == 11
        file.truncate(5)
        assert disk.read(tmp_path / "a") == b"hello"
        file.close()
        file.close()  # closing twice is harmless
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.pwrite(b"x", 0)

    def test_what_is_reserved_and_not_written_is_known(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(tmp_path / "a", create=True)
        assert file.written_bytes() == 0
        file.allocate(64 * PAGE)
        file.pwrite(b"first", 0)
        file.pwrite(b"last", 10 * PAGE)
        written = file.written_bytes()
        assert 10 * PAGE + 4 <= written <= 64 * PAGE  # all of it, where the file system cannot tell
        assert not any(file.pread(64 * PAGE, written))
        file.close()

    def test_a_file_is_created_only_when_asked_for(self, disk: LocalDisk, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            disk.open(tmp_path / "a")
        assert not disk.exists(tmp_path / "a")

    def test_a_file_opened_for_reading_cannot_be_written(self, disk: LocalDisk, tmp_path: Path) -> None:
        disk.open(tmp_path / "a", create=True).close()
        file = disk.open(tmp_path / "a", writable=False)
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.pwrite(b"x", 0)
        file.close()

    def test_allocated_space_is_there_and_empty(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(tmp_path / "a", create=True)
        file.allocate(3 * PAGE)
        assert file.size() == 3 * PAGE
        assert os.stat(tmp_path / "a").st_blocks * 512 >= 3 * PAGE  # blocks, not a hole
        file.allocate(PAGE)
        assert file.size() == 3 * PAGE
        file.close()

    def test_a_full_disk_is_an_error_of_allocating(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(tmp_path / "a", create=True)
        with pytest.raises(OSError, match=r".") as caught:
            file.allocate(1 << 60)
        assert caught.value.errno in (errno.ENOSPC, errno.EFBIG)
        file.close()

    def test_maps_and_writes_share_the_page_cache(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(tmp_path / "a", create=True)
        file.allocate(PAGE)
        with file.map(PAGE) as reader, file.map(PAGE, writable=True) as writer:
            file.pwrite(b"pwrite", 0)
            assert reader[:6] == b"pwrite"
            writer[0:6] = b"mapped"
            assert file.pread(6, 0) == b"mapped"
            file.fdatasync()
            file.close()
            assert reader[:6] == b"mapped"  # a map outlives its file
            with pytest.raises(TypeError):
                reader[0] = 1

    def test_a_replaced_file_keeps_a_backup_if_asked(self, disk: LocalDisk, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        disk.replace(path, b"one", keep_backup=True)
        assert disk.list(tmp_path) == ["a.json"]
        disk.replace(path, b"two", keep_backup=True)
        disk.replace(path, b"three")
        assert disk.read(path) == b"three"
        assert disk.read(tmp_path / "a.json.bak") == b"one"
        assert disk.list(tmp_path) == ["a.json", "a.json.bak"]

    def test_directories_are_made_listed_and_removed(self, disk: LocalDisk, tmp_path: Path) -> None:
        inner = tmp_path / "x" / "y"
        disk.make_directories(inner)
        disk.make_directories(inner)
        disk.replace(inner / "b", b"")
        disk.replace(inner / "a", b"")
        assert disk.is_directory(inner)
        assert not disk.is_directory(inner / "a")
        assert disk.list(inner) == ["a", "b"]
        assert disk.list(tmp_path / "missing") == []
        with pytest.raises(OSError, match="not empty"):
            disk.remove_directory(inner)
        disk.unlink(inner / "a")
        disk.unlink(inner / "a")
        disk.rename(inner / "b", tmp_path / "b")
        disk.remove_directory(inner)
        disk.remove_directory(inner)
        disk.sync_directory(tmp_path)
        assert disk.list(tmp_path) == ["b", "x"]

    def test_age_and_space_are_told(self, disk: LocalDisk, tmp_path: Path) -> None:
        disk.replace(tmp_path / "a", b"x")
        os.utime(tmp_path / "a", ns=(0, 1_234_567_890))
        assert disk.modified_ms(tmp_path / "a") == 1234
        usage = disk.usage(tmp_path)
        assert 0 < usage.used_bytes + usage.free_bytes <= usage.total_bytes

    @pytest.mark.parametrize(
        ("used_bytes", "free_bytes", "expected"),
        [(13, 77, 0.15), (0, 77, 0.0), (77, 0, 1.0), (1, 999, 0.01), (0, 0, 0.0)],
    )
    def test_what_is_kept_for_root_counts_as_neither_used_nor_free(
        self, used_bytes: int, free_bytes: int, expected: float
    ) -> None:
        assert DiskUsage(252, used_bytes, free_bytes).used_ratio == expected

    def test_a_lock_keeps_other_processes_out_until_it_is_released(self, disk: LocalDisk, tmp_path: Path) -> None:
        path = tmp_path / "lock"
        attempt = (
            "import sys, pathlib; from skyrocketmq.ports import LocalDisk; from skyrocketmq.errors import StoreLocked\n"
            "try: LocalDisk().lock(pathlib.Path(sys.argv[1])); print('got it')\n"
            "except StoreLocked: print('locked')"
        )

        def other_process() -> str:
            command = [sys.executable, "-c", attempt, str(path)]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=15).stdout.strip()

        lock = disk.lock(path)
        assert other_process() == "locked"  # before anything else: closing the file anywhere in this process unlocks it
        lock.release()
        lock.release()
        assert other_process() == "got it"
        assert disk.read(path) == b""

    def test_a_lock_carries_the_mark_of_its_last_holder(self, disk: LocalDisk, tmp_path: Path) -> None:
        path = tmp_path / "lock"
        path.write_bytes(b"lock and more")  # Apache's brokers write the first word
        lock = disk.lock(path)
        assert lock.read_mark() == b"lock and more"
        lock.write_mark(b"mine")
        lock.release()
        again = disk.lock(path)
        assert again.read_mark() == b"mine"
        again.release()

    def test_a_sync_is_a_sync_of_the_system(
        self, disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody here can cut the power; but the system is asked to make things durable, and in order."""
        calls = spied(monkeypatch)
        file = disk.open(tmp_path / "a", create=True)
        file.pwrite(b"x", 0)
        file.fdatasync()
        file.close()
        assert calls == [("fdatasync", "a")]
        calls.clear()
        disk.sync_directory(tmp_path)
        assert calls == [("fsync", tmp_path.name)]

    @pytest.mark.parametrize("keep_backup", [False, True])
    def test_a_file_is_replaced_when_the_new_one_is_durable_and_then_its_name_is(
        self, disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_backup: bool
    ) -> None:
        (tmp_path / "a").write_bytes(b"old")
        calls = spied(monkeypatch)
        disk.replace(tmp_path / "a", b"new", keep_backup=keep_backup)
        backup = [("fsync", "a.bak.tmp"), ("replace", "a.bak")] if keep_backup else []
        assert calls == [*backup, ("fsync", "a.tmp"), ("replace", "a"), ("fsync", tmp_path.name)]

    def test_a_mark_is_durable(self, disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lock = disk.lock(tmp_path / "lock")
        calls = spied(monkeypatch)
        lock.write_mark(b"mine")
        assert calls == [("fsync", "lock")]
        lock.release()

    def test_a_session_lasts_as_long_as_the_machine_is_up(self, disk: LocalDisk) -> None:
        assert disk.session() == LocalDisk().session()

    def test_a_lock_that_is_taken_says_what_to_do(self, disk: LocalDisk, tmp_path: Path) -> None:
        path = tmp_path / "lock"
        hold = (
            "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)\n"
            "print('ok', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdin is not None
            assert holder.stdout.readline() == "ok\n"
            with pytest.raises(StoreLocked, match="stop the broker on"):
                disk.lock(path)
            holder.stdin.close()

    async def test_blocking_calls_run_beside_the_loop(self, disk: LocalDisk) -> None:
        loop_thread = threading.get_ident()
        assert await disk.run(threading.get_ident) != loop_thread
        assert await disk.run(sorted, [1, 3, 2], reverse=True) == [3, 2, 1]
        with pytest.raises(ZeroDivisionError):
            await disk.run(lambda: 1 // 0)

    async def test_the_loop_turns_while_a_call_blocks(self, disk: LocalDisk) -> None:
        release = threading.Event()
        blocked = asyncio.create_task(disk.run(release.wait, 10))
        await asyncio.sleep(0)
        assert not blocked.done()
        release.set()
        assert await blocked


class TestSystemClock:
    def test_it_is_a_clock(self) -> None:
        assert isinstance(SystemClock(), Clock)

    def test_wall_time_is_in_milliseconds(self) -> None:
        assert 1_600_000_000_000 < SystemClock().now_ms() < 5_000_000_000_000

    async def test_it_waits_and_ends_waits(self) -> None:
        clock = SystemClock()
        before = clock.monotonic()
        await clock.sleep(0.01)
        assert clock.monotonic() - before >= 0.009
        with pytest.raises(TimeoutError):
            async with clock.timeout(0.01):
                await clock.sleep(10)
        async with clock.timeout(None):
            await clock.sleep(0)

    async def test_it_calls_back_unless_cancelled(self) -> None:
        called: list[str] = []
        done = asyncio.Event()
        SystemClock().call_later(0.001, lambda: called.append("cancelled")).cancel()
        SystemClock().call_later(0.005, lambda: called.append("due"))
        SystemClock().call_later(0.010, done.set)
        await asyncio.wait_for(done.wait(), 5)
        assert called == ["due"]


def unexpected(error: Exception) -> None:
    raise AssertionError("the work failed") from error


class TestEvery:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    async def test_work_is_done_again_and_again(self, clock: ManualClock) -> None:
        runs: list[int] = []
        task = asyncio.create_task(
            every(10, lambda: runs.append(clock.now_ms()), clock=clock, first_after=5, on_error=unexpected)
        )
        start = clock.now_ms()
        await clock.advance(30)
        assert [run - start for run in runs] == [5_000, 15_000, 25_000]
        task.cancel()

    async def test_the_first_run_comes_after_one_interval_unless_told_otherwise(self, clock: ManualClock) -> None:
        runs: list[int] = []
        task = asyncio.create_task(every(10, lambda: runs.append(1), clock=clock, on_error=unexpected))
        await clock.advance(9.9)
        assert runs == []
        await clock.advance(0.2)
        assert runs == [1]
        task.cancel()

    async def test_a_run_that_fails_is_told_and_is_not_the_last(self, clock: ManualClock) -> None:
        errors: list[Exception] = []
        runs: list[int] = []

        async def work() -> None:
            runs.append(1)
            if len(runs) == 1:
                raise OSError("once")

        task = asyncio.create_task(every(1, work, clock=clock, on_error=errors.append))
        await clock.advance(2.5)
        assert len(runs) == 2
        assert [str(error) for error in errors] == ["once"]
        task.cancel()

    async def test_the_interval_begins_when_the_work_has_ended(self, clock: ManualClock) -> None:
        starts: list[int] = []

        async def slow() -> None:
            starts.append(clock.now_ms())
            await clock.sleep(3)

        task = asyncio.create_task(every(10, slow, clock=clock, first_after=0, on_error=unexpected))
        begin = clock.now_ms()
        await clock.advance(30)
        assert [start - begin for start in starts] == [0, 13_000, 26_000]
        task.cancel()


class TestTcpLink:
    async def test_both_ends_talk_without_delay(self) -> None:
        link = TcpLink()
        assert isinstance(link, Link)
        received: asyncio.Queue[bytes] = asyncio.Queue()

        class Echo(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                self._transport = transport

            def data_received(self, data: bytes) -> None:
                self._transport.write(data.upper())

        class Caller(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                received.put_nowait(data)

        bound = link.bind("127.0.0.1", 0, backlog=5)
        server = await link.listen(Echo, bound, backlog=5)
        transport, _ = await link.connect(Caller, "127.0.0.1", bound.port)
        connected: socket.socket = transport.get_extra_info("socket")
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.write(b"hello")
        assert await asyncio.wait_for(received.get(), 5) == b"HELLO"
        transport.close()
        server.close()
        await server.wait_closed()

    async def test_nobody_listening_is_an_os_error(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            port = sock.getsockname()[1]
        with pytest.raises(OSError, match=r".") as caught:
            await TcpLink().connect(asyncio.Protocol, "127.0.0.1", port)
        assert caught.value.errno == errno.ECONNREFUSED

    async def test_an_address_is_claimed_by_binding_and_free_after_closing(self) -> None:
        link = TcpLink()
        bound = link.bind("127.0.0.1", 0, backlog=5)
        with pytest.raises(NetError, match=str(bound.port)):
            link.bind("127.0.0.1", bound.port, backlog=5)
        bound.close()
        link.bind("127.0.0.1", bound.port, backlog=5).close()
        with pytest.raises(NetError):
            link.bind("127.0.0.1", 70_000, backlog=5)

    async def test_names_are_looked_up(self) -> None:
        assert await TcpLink().resolve("127.0.0.1") == "127.0.0.1"
        with pytest.raises(OSError, match=r"."):
            await TcpLink().resolve("no-such-host.invalid")


class TestChance:
    def test_a_seed_gives_the_same_numbers_and_ids(self) -> None:
        one, other = Chance(5), Chance(5)
        assert [one.random(), one.uuid(), one.randrange(10)] == [other.random(), other.uuid(), other.randrange(10)]
        assert one.uuid() != Chance(6).uuid()
        assert one.uuid().version == 4

    def test_ids_of_the_system_do_not_come_from_its_numbers(self) -> None:
        """A forked process has the numbers of its parent."""
        chance = SystemChance()
        state = chance.getstate()
        first = chance.uuid()
        chance.setstate(state)
        assert chance.uuid() != first


class TestMachine:
    def test_it_is_this_process_on_this_machine(self) -> None:
        machine = LocalMachine()
        assert isinstance(machine, Machine)
        assert machine.process_id == os.getpid()
        assert machine.memory_bytes() > 1 << 20
        assert machine.address(("127.0.0.1",)).count(".") == 3

    def test_threads_are_threads(self) -> None:
        names: list[str] = []
        ran = threading.Event()

        def work() -> None:
            names.append(threading.current_thread().name)
            ran.set()

        assert LocalMachine().start_thread(work, name="own")
        assert ran.wait(5)
        pool = LocalMachine().executor(1, name="pool")
        assert pool is not None
        assert pool.submit(lambda: threading.current_thread().name).result(5).startswith("pool")
        pool.shutdown()
        assert names == ["own"]
