"""Whether bytes of a file are in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skyrocketmq.page_cache import PageLock
from skyrocketmq.ports import LocalDisk

PAGE = 4096
SIZE = 64 * PAGE


def test_what_was_just_written_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(SIZE))
    disk = LocalDisk()
    file = disk.open(path)
    try:
        assert file.is_cached(0, SIZE)
        assert file.is_cached(5, 3 * PAGE)
    finally:
        file.close()
        disk.close()


def test_pages_that_were_never_touched_are_not_in_memory_nor_is_a_range_with_one_of_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    disk = LocalDisk()
    file = disk.open(path)
    try:
        file.truncate(2 * SIZE)  # what follows has never been read or written
        assert file.is_cached(0, SIZE)
        assert not file.is_cached(SIZE - PAGE, 2 * PAGE)
    finally:
        file.close()
        disk.close()


def test_bytes_beyond_the_file_as_it_was_opened_are_never_said_to_be_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    disk = LocalDisk()
    file = disk.open(path)
    try:
        assert file.is_cached(SIZE - 10, 10)
        assert not file.is_cached(SIZE - 10, 11)
    finally:
        file.close()
        disk.close()


def test_pages_are_locked_in_memory_until_they_are_let_go(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(16 * 4096))
    with path.open("rb") as file:
        try:
            lock = PageLock(file.fileno(), 16 * 4096)
        except PermissionError:
            pytest.skip("this user may not lock memory")
        assert locked_kib() >= 64
        lock.release()
        lock.release()
        assert locked_kib() == 0


def locked_kib() -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmLck")]
    return int(line.split()[1])
