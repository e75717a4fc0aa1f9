"""A `FaultyDisk` behaves like a real one until it is told to fail, and forgets what was not synced."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skyrocketmq.errors import StoreLocked
from skyrocketmq.ports import Disk, File
from skyrocketmq.testing import FaultyDisk, ManualClock, PowerLost

ROOT = Path("/store")
LOG = ROOT / "log"
PAGE = 4096


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(directories=[ROOT])


def written(disk: FaultyDisk, path: Path, data: bytes, *, synced: bool = False, named: bool = False) -> None:
    file = disk.open(path, create=True)
    file.pwrite(data, 0)
    if synced:
        file.fdatasync()
    if named:
        disk.sync_directory(path.parent)
    file.close()


def test_it_is_a_disk(disk: FaultyDisk) -> None:
    port: Disk = disk
    file: File = disk.open(LOG, create=True)
    assert isinstance(port, Disk)
    assert isinstance(file, File)


class TestPowerLoss:
    def test_what_was_synced_is_there(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"hello", synced=True, named=True)
        for seed in range(20):
            assert disk.after_power_loss(seed).read(LOG) == b"hello"

    def test_content_that_was_not_synced_is_lost_or_kept(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"old", synced=True, named=True)
        written(disk, LOG, b"newer")
        assert disk.after_power_loss().read(LOG) == b"old"
        assert disk.after_power_loss(keep=True).read(LOG) == b"newer"

    def test_writes_through_a_map_are_durable_only_after_a_sync(self, disk: FaultyDisk) -> None:
        file = disk.open(LOG, create=True)
        file.allocate(2 * PAGE)
        file.fdatasync()
        disk.sync_directory(ROOT)
        with file.map(2 * PAGE, writable=True) as view:
            view[0:5] = b"first"
            file.fdatasync()
            view[PAGE : PAGE + 6] = b"second"
        assert disk.after_power_loss().read(LOG).rstrip(b"\0") == b"first"
        assert disk.after_power_loss(keep=True).read(LOG)[PAGE : PAGE + 6] == b"second"

    def test_a_map_that_is_written_after_the_power_went_changes_nothing(self, disk: FaultyDisk) -> None:
        file = disk.open(LOG, create=True)
        file.allocate(PAGE)
        with file.map(PAGE, writable=True) as view:
            view[0:6] = b"before"
            disk.cut_power()
            view[0:6] = b"after!"
        assert disk.after_power_loss(keep=True).read(LOG)[:6] == b"before"

    def test_pages_are_lost_kept_and_torn_each_for_itself(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"o" * 4 * PAGE, synced=True, named=True)
        written(disk, LOG, b"n" * 4 * PAGE)
        outcomes: set[tuple[bytes, ...]] = set()
        for seed in range(300):
            data = disk.after_power_loss(seed).read(LOG)
            assert len(data) == 4 * PAGE
            assert set(data) <= set(b"on")
            outcomes.add(tuple(data[at : at + PAGE] for at in range(0, 4 * PAGE, PAGE)))
        old, new = b"o" * PAGE, b"n" * PAGE
        assert (old, old, old, old) in outcomes
        assert (new, new, new, new) in outcomes
        assert any(pages[0] == old and pages[3] == new for pages in outcomes), "a later write survived an earlier one"
        torn = [page for pages in outcomes for page in pages if page not in (old, new)]
        assert any(page.startswith(b"n") for page in torn)
        assert any(page.startswith(b"o") for page in torn)

    def test_the_length_of_a_file_that_grew_is_old_new_or_between(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"x" * 10, synced=True, named=True)
        written(disk, LOG, b"x" * 1000)
        sizes = {len(disk.after_power_loss(seed).read(LOG)) for seed in range(200)}
        assert {10, 1000} < sizes
        assert all(10 <= size <= 1000 for size in sizes)

    def test_a_file_that_was_cut_short_may_be_long_again(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"x" * 2 * PAGE, synced=True, named=True)
        file = disk.open(LOG)
        file.truncate(10)
        assert disk.after_power_loss().read(LOG) == b"x" * 2 * PAGE
        assert disk.after_power_loss(keep=True).read(LOG) == b"x" * 10

    def test_bytes_behind_a_synced_cut_do_not_come_back(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"x" * 2 * PAGE, synced=True, named=True)
        file = disk.open(LOG)
        file.truncate(10)
        file.fdatasync()
        file.truncate(2 * PAGE)
        file.fdatasync()
        assert disk.after_power_loss(3).read(LOG) == b"x" * 10 + bytes(2 * PAGE - 10)

    def test_a_new_file_needs_its_directory_synced(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"hello", synced=True)
        assert not disk.after_power_loss().exists(LOG)
        assert disk.after_power_loss(keep=True).read(LOG) == b"hello"
        assert {disk.after_power_loss(seed).exists(LOG) for seed in range(30)} == {True, False}

    def test_a_new_directory_needs_the_one_above_synced(self, disk: FaultyDisk) -> None:
        inner = ROOT / "inner"
        disk.make_directories(inner)
        written(disk, inner / "a", b"hello", synced=True, named=True)
        assert not disk.after_power_loss().exists(inner)
        again = FaultyDisk(directories=[ROOT])
        again.make_directories(inner)
        written(again, inner / "a", b"hello", synced=True, named=True)
        again.sync_directory(ROOT)
        assert again.after_power_loss().read(inner / "a") == b"hello"

    def test_a_renaming_happens_whole_or_not_at_all(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"old", synced=True, named=True)
        written(disk, ROOT / "tmp", b"new", synced=True, named=True)
        disk.rename(ROOT / "tmp", LOG)
        found = set()
        for seed in range(50):
            survivor = disk.after_power_loss(seed)
            found.add((survivor.read(LOG), tuple(survivor.list(ROOT))))
        assert found == {(b"old", ("log", "tmp")), (b"new", ("log",))}

    def test_a_deleted_file_may_come_back(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"hello", synced=True, named=True)
        disk.unlink(LOG)
        assert disk.after_power_loss().read(LOG) == b"hello"
        assert not disk.after_power_loss(keep=True).exists(LOG)

    def test_a_deletion_is_durable_after_a_sync_of_the_directory(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"hello", synced=True, named=True)
        disk.unlink(LOG)
        disk.sync_directory(ROOT)
        assert not disk.after_power_loss().exists(LOG)

    def test_the_same_seed_gives_the_same_disk(self) -> None:
        def run(seed: int) -> bytes:
            disk = FaultyDisk(directories=[ROOT])
            written(disk, LOG, bytes(range(256)) * 64, named=True)
            return disk.after_power_loss(seed).read(LOG)

        assert [run(seed) for seed in range(10)] == [run(seed) for seed in range(10)]

    def test_the_disk_that_is_found_loses_only_what_comes_later(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"hello")
        second = disk.after_power_loss(keep=True)
        assert second.after_power_loss().read(LOG) == b"hello"

    def test_old_handles_are_dead(self, disk: FaultyDisk) -> None:
        file = disk.open(LOG, create=True)
        disk.after_power_loss()
        uses: list[Callable[[], object]] = [
            lambda: file.pwrite(b"x", 0),
            lambda: file.pread(1, 0),
            file.fdatasync,
            lambda: disk.open(LOG),
            lambda: disk.exists(LOG),
            lambda: disk.make_directories(ROOT),
        ]
        for use in uses:
            with pytest.raises(PowerLost):
                use()

    def test_locks_are_free_again(self, disk: FaultyDisk) -> None:
        disk.lock(ROOT / "lock")
        disk.sync_directory(ROOT)
        disk.after_power_loss().lock(ROOT / "lock")


class TestReplace:
    OLD, NEW = b"o" * 9000, b"n" * 10000

    @pytest.mark.parametrize("crash_at", range(20))
    def test_a_replaced_file_is_old_or_new_wherever_the_power_goes(self, crash_at: int) -> None:
        disk = FaultyDisk(directories=[ROOT])
        disk.replace(LOG, self.OLD)
        disk.crash_at = len(disk.calls) + crash_at
        acknowledged = False
        try:
            disk.replace(LOG, self.NEW, keep_backup=True)
            acknowledged = True
        except PowerLost:
            pass
        for seed in range(20):
            found = disk.after_power_loss(seed)
            assert found.read(LOG) in ([self.NEW] if acknowledged else [self.OLD, self.NEW])
            if acknowledged:
                assert found.read(ROOT / "log.bak") == self.OLD

    def test_a_file_replaced_without_syncs_is_caught(self) -> None:
        """The model is worth something only if it finds the mistake that `replace` avoids."""
        disk = FaultyDisk(directories=[ROOT])
        disk.replace(LOG, self.OLD)
        file = disk.open(ROOT / "tmp", create=True)
        file.pwrite(self.NEW, 0)
        disk.rename(ROOT / "tmp", LOG)
        disk.sync_directory(ROOT)
        assert any(disk.after_power_loss(seed).read(LOG) not in (self.OLD, self.NEW) for seed in range(20))


class TestCrash:
    def test_the_power_goes_at_the_call_that_was_named(self) -> None:
        disk = FaultyDisk(directories=[ROOT], crash_at=2)
        file = disk.open(LOG, create=True)  # 0
        file.pwrite(b"a", 0)  # 1
        assert disk.read(LOG) == b"a"  # looking does not count
        with pytest.raises(PowerLost):
            file.pwrite(b"b", 0)  # 2
        assert not disk.is_powered
        assert disk.after_power_loss(keep=True).read(LOG) == b"a"

    def test_every_call_is_written_down(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"a", synced=True, named=True)
        assert [call.operation for call in disk.calls] == ["create", "pwrite", "fdatasync", "sync_directory"]
        assert disk.count("pwrite") == 1
        assert disk.count("pwrite", "*.tmp") == 0

    def test_code_that_heals_errors_cannot_heal_a_power_cut(self) -> None:
        disk = FaultyDisk(crash_at=0)

        def heal() -> None:
            try:
                disk.make_directories(ROOT)
            except Exception:
                pass

        with pytest.raises(PowerLost):
            heal()


class TestFaults:
    @pytest.mark.parametrize("operation", ["pwrite", "allocate", "fdatasync", "truncate", "pread", "map"])
    def test_a_call_on_a_file_fails_as_ordered(self, disk: FaultyDisk, operation: str) -> None:
        file = disk.open(LOG, create=True)
        file.allocate(PAGE)
        uses: dict[str, Callable[[], object]] = {
            "pwrite": lambda: file.pwrite(b"x", 0),
            "allocate": lambda: file.allocate(PAGE),
            "fdatasync": file.fdatasync,
            "truncate": lambda: file.truncate(PAGE),
            "pread": lambda: file.pread(1, 0),
            "map": lambda: file.map(PAGE).close(),
        }
        disk.fail(operation, error=errno.ENOSPC, after=1, times=2)
        uses[operation]()
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                uses[operation]()
        uses[operation]()

    def test_a_fault_strikes_only_the_paths_it_names(self, disk: FaultyDisk) -> None:
        disk.fail("pwrite", path="*/log", times=None)
        written(disk, ROOT / "index", b"fine")
        for _ in range(3):
            with pytest.raises(OSError, match="Input/output error"):
                written(disk, LOG, b"broken")
        disk.heal()
        written(disk, LOG, b"healed")

    @pytest.mark.parametrize(("share", "left"), [(0.0, b""), (0.5, b"abc"), (1.0, b"abcdef")])
    def test_a_write_that_fails_has_done_none_a_part_or_all_of_its_work(
        self, disk: FaultyDisk, share: float, left: bytes
    ) -> None:
        disk.fail("pwrite", error=errno.ENOSPC, written=share)
        with pytest.raises(OSError, match="No space left"):
            written(disk, LOG, b"abcdef")
        assert disk.read(LOG) == left

    def test_what_a_failed_sync_dropped_is_not_saved_by_the_next_one(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"o" * 2 * PAGE, synced=True, named=True)
        file = disk.open(LOG)
        file.pwrite(b"n" * PAGE, 0)
        disk.fail("fdatasync")
        with pytest.raises(OSError, match="Input/output error"):
            file.fdatasync()
        file.pwrite(b"n" * PAGE, PAGE)
        file.fdatasync()
        assert disk.after_power_loss().read(LOG) == b"o" * PAGE + b"n" * PAGE

    def test_a_page_that_is_written_again_after_a_failed_sync_can_be_saved(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"", synced=True, named=True)
        file = disk.open(LOG)
        file.pwrite(b"first", 0)
        disk.fail("fdatasync")
        with pytest.raises(OSError, match="Input/output error"):
            file.fdatasync()
        file.pwrite(b"again", 0)
        file.fdatasync()
        assert disk.after_power_loss().read(LOG) == b"again"

    def test_opening_and_renaming_fail_as_ordered(self, disk: FaultyDisk) -> None:
        disk.fail("create", error=errno.EMFILE)
        with pytest.raises(OSError, match="Too many open files"):
            disk.open(LOG, create=True)
        written(disk, LOG, b"")
        disk.fail("rename", error=errno.EXDEV)
        with pytest.raises(OSError, match="cross-device"):
            disk.rename(LOG, ROOT / "x")
        assert disk.exists(LOG)


class TestSpace:
    @pytest.fixture
    def small(self) -> FaultyDisk:
        return FaultyDisk(directories=[ROOT], capacity_bytes=4 * PAGE)

    def test_allocating_more_than_there_is_changes_nothing(self, small: FaultyDisk) -> None:
        file = small.open(LOG, create=True)
        with pytest.raises(OSError, match="No space left"):
            file.allocate(5 * PAGE)
        assert file.size() == 0
        assert small.usage(ROOT).used_bytes == 0

    def test_reserved_space_can_be_written_when_the_disk_is_full(self, small: FaultyDisk) -> None:
        file = small.open(LOG, create=True)
        file.allocate(4 * PAGE)
        assert small.usage(ROOT).free_bytes == 0
        file.pwrite(b"x" * 4 * PAGE, 0)
        with pytest.raises(OSError, match="No space left"):
            file.pwrite(b"x", 4 * PAGE)

    def test_a_write_into_a_full_disk_writes_what_fits(self, small: FaultyDisk) -> None:
        file = small.open(LOG, create=True)
        with pytest.raises(OSError, match="No space left"):
            file.pwrite(b"x" * 6 * PAGE, 100)
        assert file.size() == 4 * PAGE
        assert file.pread(PAGE, 100) == b"x" * PAGE

    def test_deleting_gives_space_back_once_the_file_is_closed(self, small: FaultyDisk) -> None:
        file = small.open(LOG, create=True)
        file.allocate(3 * PAGE)
        small.unlink(LOG)
        assert small.usage(ROOT).used_bytes == 3 * PAGE
        file.close()
        assert small.usage(ROOT).used_bytes == 0

    def test_cutting_a_file_short_gives_space_back(self, small: FaultyDisk) -> None:
        file = small.open(LOG, create=True)
        file.allocate(4 * PAGE)
        file.truncate(PAGE)
        assert small.usage(ROOT).used_bytes == PAGE

    def test_writes_into_a_hole_take_space_once(self, small: FaultyDisk) -> None:
        file = small.open(LOG, create=True)
        file.pwrite(b"x", 100 * PAGE)
        file.pwrite(b"y", 100 * PAGE + 1)
        assert small.usage(ROOT).used_bytes == PAGE

    def test_a_disk_can_grow(self, small: FaultyDisk) -> None:
        small.capacity_bytes = 10 * PAGE
        small.open(LOG, create=True).allocate(10 * PAGE)


class TestPageCache:
    def test_pages_are_cached_once_they_are_written_or_read(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"x" * 3 * PAGE)
        file = disk.open(LOG)
        assert file.pread_cached(10, 0) == b"x" * 10
        disk.cool("*/log")
        assert file.pread_cached(10, 0) is None
        file.pread(10, 0)
        file.pwrite(b"y", PAGE)
        assert file.pread_cached(10, 0) == b"x" * 10
        assert file.pread_cached(1, PAGE) == b"y"
        assert file.pread_cached(2 * PAGE, PAGE) is None

    def test_the_cache_is_empty_after_a_power_cut(self, disk: FaultyDisk) -> None:
        written(disk, LOG, b"hello", synced=True, named=True)
        file = disk.after_power_loss().open(LOG)
        assert file.pread_cached(5, 0) is None
        assert file.pread(5, 0) == b"hello"
        assert file.pread_cached(5, 0) == b"hello"


class TestTime:
    async def test_a_sync_takes_its_time_for_whoever_waits(self) -> None:
        clock = ManualClock()
        disk = FaultyDisk(directories=[ROOT], clock=clock, sync_seconds=0.5)
        file = disk.open(LOG, create=True)
        sync = asyncio.create_task(disk.run(file.fdatasync))
        await clock.advance(0.4)
        assert not sync.done()
        await clock.advance(0.2)
        assert sync.done()

    async def test_what_is_written_during_a_sync_is_not_part_of_it(self) -> None:
        clock = ManualClock()
        disk = FaultyDisk(directories=[ROOT], clock=clock, sync_seconds=0.5)
        written(disk, LOG, b"first", named=True)
        file = disk.open(LOG)
        sync = asyncio.create_task(disk.run(file.fdatasync))
        await clock.advance(0.1)
        file.pwrite(b"later", 0)
        await clock.advance(1)
        await sync
        assert disk.after_power_loss().read(LOG) == b"first"

    async def test_a_stall_holds_up_one_call(self) -> None:
        clock = ManualClock()
        disk = FaultyDisk(directories=[ROOT], clock=clock)
        file = disk.open(LOG, create=True)
        disk.stall("allocate", seconds=3, path="*/log")
        stalled = asyncio.create_task(disk.run(file.allocate, PAGE))
        await clock.advance(2.9)
        assert not stalled.done()
        await clock.advance(0.2)
        assert stalled.done()
        await disk.run(file.allocate, 2 * PAGE)  # the next one does not wait

    async def test_a_call_in_run_lets_the_loop_turn_and_passes_errors_on(self) -> None:
        disk = FaultyDisk(directories=[ROOT])
        turned = False

        def turn() -> None:
            nonlocal turned
            turned = True

        asyncio.get_running_loop().call_soon(turn)
        with pytest.raises(FileNotFoundError):
            await disk.run(disk.read, LOG)
        assert turned

    def test_files_are_as_old_as_the_clock_says(self) -> None:
        clock = ManualClock()
        disk = FaultyDisk(directories=[ROOT], clock=clock)
        written(disk, LOG, b"x")
        assert disk.modified_ms(LOG) == clock.now_ms()
        disk.set_modified_ms(LOG, 123)
        assert disk.modified_ms(LOG) == 123


def test_a_lock_is_held_once(disk: FaultyDisk) -> None:
    lock = disk.lock(ROOT / "lock")
    lock.write_mark(b"mine")
    assert lock.read_mark() == disk.read(ROOT / "lock") == b"mine"
    with pytest.raises(StoreLocked, match="stop the broker on /store"):
        disk.lock(ROOT / "lock")
    lock.release()
    lock.release()
    disk.lock(ROOT / "lock")


def test_memory_goes_with_the_disk() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    disk = FaultyDisk(directories=[ROOT])
    for number in range(20):
        written(disk, ROOT / str(number), b"x")
    disk.after_power_loss(1)
    assert len(os.listdir("/proc/self/fd")) > before
    del disk
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
