"""The smaller parts, each alone: hashes, shapes, open files, rows of files, flags, cold reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import StoreError
from skyrocketmq.store import RunningFlag
from skyrocketmq.store.checkpoint import CheckpointTimes, load_checkpoint, save_checkpoint
from skyrocketmq.store.cold_reads import ColdRange, ColdReads, Pending, Steps
from skyrocketmq.store.file_rows import directory_for, file_name, load_row
from skyrocketmq.store.index import time_name
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.store.statuses import RunningState
from skyrocketmq.store.threads import run_to_end
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.reader import java_hash
from tests.store.support import unique_id

ROOT = Path("/data")


def index_hash(topic: str, key: str) -> int:
    return abs(java_hash(f"{topic}#{key}")) & 0x7FFFFFFF


# ------------------------------------------------------------------------------------------------------------- hashing


def test_known_keys_have_the_hashes_of_the_format() -> None:
    keys = TopicKeys("TopicTest")
    assert keys.hash_of(b"k1") == 2746024
    assert keys.hash_of(b"OrderID188") == 1231271670


@given(st.text(min_size=1, max_size=20), st.text(max_size=40))
def test_the_hash_of_any_key_is_java_s(topic: str, key: str) -> None:
    assert TopicKeys(topic).hash_of(key.encode("utf-8", "replace")) == index_hash(
        topic, key.encode("utf-8", "replace").decode()
    )


def test_the_one_hash_without_an_absolute_value_counts_as_0() -> None:
    # Found by search: Java's hash of "T#<key>" is -2^31 for this key.
    target = -(2**31)
    key = _key_with_hash("T#", target)
    assert java_hash("T#" + key) == target
    assert TopicKeys("T").hash_of(key.encode()) == 0


def _key_with_hash(prefix: str, target: int) -> str:
    """A text that, behind the prefix, has this hash: digits of the rest in base 31, as letters."""
    length = 8
    rest = (target - java_hash(prefix) * 31**length - java_hash("A" * length)) % 2**32
    letters = []
    for power in reversed(range(length)):
        digit = min(rest // 31**power, 60)
        letters.append(chr(ord("A") + digit))
        rest -= digit * 31**power
    assert rest == 0
    return "".join(letters)


# --------------------------------------------------------------------------------------------------------------- files


def test_open_files_are_closed_when_others_are_needed_unless_they_are_held() -> None:
    disk = FaultyDisk(directories=[ROOT])
    for name in "abcd":
        disk.replace(ROOT / name, name.encode())
    files = OpenFiles(disk, count_max=2)
    held = files.hold(ROOT / "a")
    for name in "bcd":
        assert files.get(ROOT / name).pread(1, 0) == name.encode()
    assert len(files) == 2
    assert held.pread(1, 0) == b"a"
    files.forget(ROOT / "a")
    assert held.pread(1, 0) == b"a", "deleted, but somebody still reads it"
    disk.replace(ROOT / "a", b"A")
    assert files.get(ROOT / "a").pread(1, 0) == b"A", "a new file of that name is another one"
    files.release(held)
    with pytest.raises(OSError, match="descriptor"):
        held.pread(1, 0)
    assert files.get(ROOT / "a").pread(1, 0) == b"A"
    files.close()
    with pytest.raises(OSError, match="descriptor"):
        held.pread(1, 0)
    files.close()
    assert len(files) == 0


def test_a_row_of_files_is_read_in_order_and_checked() -> None:
    disk = FaultyDisk(directories=[ROOT, ROOT / "b"])
    for start in (200, 0, 100):
        disk.replace(ROOT / file_name(start), bytes(100))
    disk.replace(ROOT / "b" / file_name(300), bytes(40))
    row = load_row(disk, (ROOT, ROOT / "b"), file_bytes=100, key="sizeKey")
    assert [(file.start, file.size) for file in row] == [(0, 100), (100, 100), (200, 100), (300, 40)]
    disk.replace(ROOT / "b" / file_name(100), bytes(100))
    with pytest.raises(StoreError, match="both claim offset 100"):
        load_row(disk, (ROOT, ROOT / "b"), file_bytes=100, key="sizeKey")
    with pytest.raises(StoreError, match="sizeKey says 50"):
        load_row(disk, (ROOT,), file_bytes=50, key="sizeKey")
    assert load_row(disk, (ROOT / "none",), file_bytes=50, key="sizeKey") == []


def test_new_files_are_spread_over_directories_with_room() -> None:
    a, b, c = Path("/a"), Path("/b"), Path("/c")

    def place(number: int, read_only: Sequence[Path] = (), **used: float) -> Path:
        ratios = {Path("/" + name): ratio for name, ratio in used.items()}
        return directory_for(number, (a, b, c), read_only=frozenset(read_only), used_ratio=ratios)

    assert [place(number) for number in range(4)] == [a, b, c, a]
    assert [place(number, [b]) for number in range(3)] == [a, c, a]
    assert [place(number, a=0.9) for number in range(3)] == [b, c, b]
    assert [place(number, a=0.9, b=0.9, c=0.9) for number in range(3)] == [a, b, c]


def test_index_files_are_named_by_local_time() -> None:
    name = time_name(1_700_000_000_123)
    assert len(name) == 17
    assert name.endswith("20123")


def test_the_checkpoint_has_a_margin() -> None:
    disk = FaultyDisk(directories=[ROOT])
    path = ROOT / "checkpoint"
    assert load_checkpoint(disk, path) == CheckpointTimes(0, 0, 0)
    save_checkpoint(disk, path, CheckpointTimes(9_000, 8_000, 4_000))
    times = load_checkpoint(disk, path)
    assert (times.log_ms, times.safe_ms, times.index_safe_ms) == (9_000, 5_000, 4_000)
    assert CheckpointTimes(2_000, 9_000, 9_000).safe_ms == 0
    disk.replace(path, b"short")
    assert load_checkpoint(disk, path) == CheckpointTimes()


# --------------------------------------------------------------------------------------------------------------- flags


def test_the_first_reason_that_applies_is_told() -> None:
    state = RunningState(RunningFlag(0))
    assert state.is_writable
    assert state.is_readable
    assert state.raise_flag(RunningFlag.DISK_FULL)
    assert not state.raise_flag(RunningFlag.DISK_FULL)
    state.raise_flag(RunningFlag.QUEUE_WRITE_ERROR)
    assert state.refusal is not None
    assert "disk is full" in state.refusal.remark
    assert state.is_readable
    assert state.lower_flag(RunningFlag.DISK_FULL)
    assert "consume queue" in state.refusal.remark
    state.lower_flag(RunningFlag.QUEUE_WRITE_ERROR)
    state.raise_flag(RunningFlag.NOT_READABLE)
    assert state.is_writable
    assert not state.is_readable


# ---------------------------------------------------------------------------------------------------------- cold reads


async def test_a_read_waits_only_for_what_is_cold() -> None:
    disk = FaultyDisk(directories=[ROOT])
    disk.replace(ROOT / "f", b"0123456789")
    files = OpenFiles(disk, count_max=2)
    reads = ColdReads(disk, ManualClock())

    def steps(is_cold: bool) -> Steps[bytes]:
        if not is_cold:
            return b"warm"
        first, second = yield [ColdRange(files, ROOT / "f", 0, 3), ColdRange(files, ROOT / "f", 7, 9)]
        yield ()
        return first + second

    assert reads.start(steps(False)) == b"warm"
    pending = reads.start(steps(True))
    assert isinstance(pending, Pending)
    assert await pending.finish() == b"012789"
    assert await reads.run(steps(True)) == b"012789"
    assert await reads.run(steps(False)) == b"warm"
    files.close()


async def test_work_in_a_thread_is_waited_for_also_by_who_is_cancelled() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    disk.stall("unlink", seconds=5)
    work = asyncio.get_running_loop().create_task(run_to_end(disk, disk.unlink, ROOT / "f"))
    await clock.settle()
    work.cancel()
    await clock.settle()
    work.cancel()
    await clock.advance(4)
    assert not work.done()
    await clock.advance(2)
    assert work.cancelled()


def test_unique_ids_of_the_tests_look_like_a_producer_s() -> None:
    assert len(unique_id(123456)) == 32
