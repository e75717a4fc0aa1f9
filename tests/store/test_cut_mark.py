"""A log file that is being cut is short for a moment: neither tools nor starts take that for its size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import StoreError
from skyrocketmq.store.inspection import inspect
from skyrocketmq.store.repair import plan_repair, repair
from skyrocketmq.store.store_sizes import fitted_config
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.support import ROOT, check, killed_store, memory_disk, new_message, open_store, put_ok, store_config

FILE_BYTES = 16 * 1024
CONFIG = store_config(commit_log_file_bytes=FILE_BYTES)
UNKNOWN = replace(CONFIG, commit_log_file_bytes=1 << 30)  # what a tool has that is given nothing but a directory
CUT = ROOT / "cut.json"


async def torn(count: int) -> FaultyDisk:
    """After a crash, with bytes behind the last message that the next start cuts off."""
    disk = memory_disk()
    async with killed_store(disk, CONFIG) as store:
        for number in range(count):
            put_ok(store, new_message("T", 0, b"%05d" % number + b"." * 200))
        file, end = store.log.files[-1], int(store.log.max_offset)
    disk = disk.after_power_loss(keep=True)
    opened = disk.open(file.path)
    opened.pwrite(b"torn" * 50, end - file.start)
    opened.fdatasync()
    opened.close()
    return disk


async def interrupted(count: int) -> FaultyDisk:
    """The start that cuts was cut off itself, while the file was short."""
    disk = await torn(count)
    disk.fail("allocate", path="*/commitlog/*", times=None)
    disk.fail("truncate", path="*/commitlog/*", after=1, times=None)
    with pytest.raises(OSError, match="commitlog"):
        async with open_store(disk, CONFIG):
            raise AssertionError("it was not opened")
    disk.heal()
    assert disk.exists(CUT)
    assert size(disk, last_file(disk)) < FILE_BYTES
    return disk.after_power_loss(keep=True)


def last_file(disk: FaultyDisk) -> Path:
    return ROOT / "commitlog" / disk.list(ROOT / "commitlog")[-1]


def size(disk: FaultyDisk, path: Path) -> int:
    file = disk.open(path, writable=False)
    try:
        return file.size()
    finally:
        file.close()


def forget_size(disk: FaultyDisk) -> None:
    """Make the note one of the first versions."""
    disk.replace(CUT, disk.read(CUT).replace(b',"file_bytes":%d' % FILE_BYTES, b""))


async def numbers_after_start(disk: FaultyDisk, config: StoreConfig = CONFIG) -> list[int]:
    async with open_store(disk, config):
        pass
    return [int(record.body[:5]) for record in check(disk, config).records]


@pytest.mark.parametrize("count", [15, 70], ids=["one file", "several files"])
async def test_a_tool_finds_the_size_of_a_file_that_is_being_cut_and_a_repair_finishes_the_cut(count: int) -> None:
    disk = await interrupted(count)
    config = fitted_config(disk, UNKNOWN)
    assert config.commit_log_file_bytes == FILE_BYTES
    report = inspect(disk, config)
    assert (report.is_intact, report.records) == (True, count)
    assert any("interrupted" in finding.what for finding in report.findings)
    await repair(plan_repair(report), config, disk=disk, clock=ManualClock())
    assert not disk.exists(CUT)
    assert size(disk, last_file(disk)) == FILE_BYTES
    assert [finding.where.partition("/")[0] for finding in inspect(disk, config).findings] == ["commitlog.cut"]
    assert await numbers_after_start(disk) == list(range(count))


@pytest.mark.parametrize("crash_at", range(40))
async def test_a_start_that_cuts_may_be_cut_off_at_any_disk_call_and_a_repair_helps(crash_at: int) -> None:
    disk = await torn(15)
    disk.crash_at = len(disk.calls) + crash_at
    try:
        async with open_store(disk, CONFIG):
            pass
    except PowerLost:
        pass
    for survivor in (disk.after_power_loss(crash_at), disk.after_power_loss(keep=True), disk.after_power_loss()):
        config = fitted_config(survivor, UNKNOWN, knows_queue_size=True)
        report = inspect(survivor, config)
        assert all(finding.can_repair for finding in report.findings if finding.is_damage), report.findings
        await repair(plan_repair(report), config, disk=survivor, clock=ManualClock())
        assert await numbers_after_start(survivor) == list(range(15))


async def test_a_note_without_the_size_needs_the_configuration() -> None:
    disk = await interrupted(15)
    forget_size(disk)
    with pytest.raises(StoreError, match=r"cut short.*-c"):
        fitted_config(disk, UNKNOWN)
    assert fitted_config(disk, CONFIG, knows_log_size=True).commit_log_file_bytes == FILE_BYTES
    assert await numbers_after_start(disk) == list(range(15))
    assert not disk.exists(CUT)


async def test_beside_other_files_a_note_without_the_size_is_enough() -> None:
    disk = await interrupted(70)
    forget_size(disk)
    assert fitted_config(disk, UNKNOWN).commit_log_file_bytes == FILE_BYTES


async def test_a_single_file_that_was_cut_short_says_nothing() -> None:
    disk = await interrupted(15)
    disk.unlink(CUT)
    with pytest.raises(StoreError, match=r"cut short.*-c"):
        fitted_config(disk, UNKNOWN)
    config = fitted_config(disk, CONFIG, knows_log_size=True)
    with pytest.raises(StoreError, match="full size"):
        inspect(disk, config)


async def test_a_single_whole_file_says_its_size() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        put_ok(store, new_message())
    assert fitted_config(disk, UNKNOWN).commit_log_file_bytes == FILE_BYTES


async def test_files_between_which_others_are_missing_say_their_size() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        for _ in range(200):
            put_ok(store, new_message(body=b"." * 200))
    names = disk.list(ROOT / "commitlog")
    for name in names[1:3]:
        disk.unlink(ROOT / "commitlog" / name)
    assert len(names) == 4
    assert fitted_config(disk, UNKNOWN).commit_log_file_bytes == FILE_BYTES


async def test_a_start_with_another_size_keeps_the_note() -> None:
    disk = await interrupted(15)
    with pytest.raises(StoreError, match="mappedFileSizeCommitLog"):
        async with open_store(disk, replace(CONFIG, commit_log_file_bytes=4096)):
            raise AssertionError("it was not opened")
    assert disk.exists(CUT)
    assert await numbers_after_start(disk) == list(range(15))


async def test_a_copy_finishes_its_own_file_and_not_that_of_the_original() -> None:
    disk = await interrupted(15)
    moved = Path("/moved")
    for directory in [ROOT, ROOT / "commitlog"]:
        target = moved / directory.relative_to(ROOT)
        disk.make_directories(target)
        for name in disk.list(directory):
            if not disk.is_directory(directory / name):
                disk.replace(target / name, disk.read(directory / name))
    original = size(disk, last_file(disk))
    assert await numbers_after_start(disk, replace(CONFIG, root_path=moved)) == list(range(15))
    assert not disk.exists(moved / "cut.json")
    assert size(disk, last_file(disk)) == original


async def test_short_queue_files_after_a_power_cut_say_nothing() -> None:
    disk = await torn(5)
    path = ROOT / "consumequeue" / "T" / "0" / ("0" * 20)
    disk.make_directories(path.parent)
    disk.replace(path, b"." * 60)
    disk.open(ROOT / "abort", create=True).close()
    unknown = replace(UNKNOWN, queue_file_bytes=6_000_000)
    with pytest.raises(StoreError, match=r"-c, or --set mappedFileSizeConsumeQueue"):
        fitted_config(disk, unknown)
    assert fitted_config(disk, unknown, writes=False).queue_file_bytes == 6_000_000
    assert fitted_config(disk, CONFIG, knows_queue_size=True).queue_file_bytes == CONFIG.queue_file_bytes
    disk.open(path.with_name(f"{CONFIG.queue_file_bytes:020d}"), create=True).close()
    assert fitted_config(disk, unknown).queue_file_bytes == CONFIG.queue_file_bytes
