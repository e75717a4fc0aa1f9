"""What a start cuts off the end of the log is counted, told, and kept beside it."""

from __future__ import annotations

import errno
import logging

import pytest

from skyrocketmq.store import cut_aside
from skyrocketmq.store.cut_aside import CUT_ASIDE_NAME
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.reader import read_log
from tests.store.support import ROOT, open_store, sizes_of, store_config
from tests.store.test_recovery import crashed, fill, log_path, overwrite

ASIDE = ROOT / CUT_ASIDE_NAME


async def spoilt(*, at: int = 5, count: int = 8) -> tuple[FaultyDisk, bytes]:
    """A store that was killed, with a damaged message; and the end of its log from there on."""
    disk = await crashed(count=count)
    records, end = read_log(disk, ROOT, sizes_of(store_config()), until_bad=True)
    overwrite(disk, log_path(0), records[at].log_offset + 90, b"broken body")
    return disk, disk.read(log_path(0))[records[at].log_offset : end]


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.message == "end of the log cut off"]


async def test_what_is_cut_is_counted_told_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    disk, lost = await spoilt()
    async with open_store(disk) as store:
        assert (store.recovered.cut_bytes, store.recovered.cut_records) == (len(lost), 2)
    [name] = disk.list(ASIDE)
    assert disk.read(ASIDE / name) == lost
    [warning] = warnings(caplog)
    assert warning.levelno == logging.WARNING
    assert (warning.__dict__["bytes"], warning.__dict__["whole_records"]) == (len(lost), 2)
    assert warning.__dict__["kept_in"] == str(ASIDE / name)


async def test_a_start_that_cuts_nothing_says_and_keeps_nothing(caplog: pytest.LogCaptureFixture) -> None:
    disk = await crashed(count=8)
    async with open_store(disk) as store:
        assert (store.recovered.cut_bytes, store.recovered.cut_records) == (0, 0)
    assert not disk.exists(ASIDE)
    assert not warnings(caplog)


async def test_the_oldest_copies_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, lost = await spoilt()
    monkeypatch.setattr(cut_aside, "KEPT_BYTES_MAX", 2 * len(lost) + 100)
    clock = ManualClock()
    names = []
    for _ in range(4):
        async with open_store(disk, clock=clock) as store:
            names.append(disk.list(ASIDE)[-1])
            end = store.log.max_offset
            fill(store, 3, first=5)
        assert disk.list(ASIDE) == names[-2:]
        overwrite(disk, log_path(0), end + 90, b"broken body")
        disk.replace(ROOT / "abort", b"")
        disk.unlink(ROOT / "checkpoint.json")
        disk.unlink(ROOT / "checkpoint")
        await clock.advance(1)
    assert len(set(names)) == 4


async def test_of_a_very_long_end_the_first_part_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, lost = await spoilt()
    monkeypatch.setattr(cut_aside, "KEPT_BYTES_MAX", 100)
    async with open_store(disk) as store:
        assert store.recovered.cut_bytes == len(lost)
    [name] = disk.list(ASIDE)
    assert disk.read(ASIDE / name) == lost[:100]


async def test_a_disk_without_room_for_the_copy_does_not_keep_the_store_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, lost = await spoilt()
    disk.fail("pwrite", path=f"*/{CUT_ASIDE_NAME}/*", error=errno.ENOSPC)
    async with open_store(disk) as store:
        assert store.recovered.cut_bytes == len(lost)
    assert any(record.message == "end of the log could not be kept" for record in caplog.records)
    assert [warning.__dict__["kept_in"] for warning in warnings(caplog)] == ["None"]
