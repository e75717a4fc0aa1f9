"""`LocalDisk` and `FaultyDisk` answer the same to random operations, mistakes included."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocketmq.ports import Disk, File, LocalDisk
from skyrocketmq.testing import FaultyDisk

NAMES = ["a", "b", "d", "d/x", "d/e", "d/e/y", "a/x"]
SLOTS = 3  # files that are open at the same time
FILE_OPERATIONS = {"pwrite", "pread", "truncate", "allocate", "fdatasync", "size", "close"}
Step = tuple[Any, ...]

paths = st.sampled_from(NAMES)
slots = st.integers(0, SLOTS - 1)
positions = st.sampled_from([0, 1, 10, 4095, 4096, 9000])
lengths = st.sampled_from([0, 1, 5, 4096, 5000, 12000])
data = st.binary(max_size=8) | st.integers(1, 9000).map(lambda count: b"z" * count)

steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("open"), slots, paths, st.booleans(), st.booleans()),
    st.tuples(st.just("pwrite"), slots, data, positions),
    st.tuples(st.just("pread"), slots, lengths, positions),
    st.tuples(st.just("truncate"), slots, lengths),
    st.tuples(st.just("allocate"), slots, lengths),
    st.tuples(st.just("map"), slots, st.integers(1, 9000), st.booleans()),
    st.tuples(st.sampled_from(["fdatasync", "size", "close"]), slots),
    st.tuples(st.sampled_from(["exists", "is_directory", "list", "read", "make_directories"]), paths),
    st.tuples(st.sampled_from(["unlink", "remove_directory", "sync_directory"]), paths),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("replace"), paths, data, st.booleans()),
)


class Program:
    """Does steps on a disk and tells what came back: a value, or the kind of error."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root
        self._files: dict[int, File] = {}

    def do(self, step: Step) -> object:
        operation, *arguments = step
        try:
            if operation in ("open", "map", "rename", "replace"):
                return getattr(self, "_" + operation)(*arguments)
            if operation in FILE_OPERATIONS:
                return self._on_file(operation, *arguments)
            return getattr(self._disk, operation)(self._root / arguments[0])
        except OSError as error:
            return type(error).__name__, error.errno
        except ValueError:
            return "ValueError"

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _open(self, slot: int, name: str, create: bool, writable: bool) -> object:
        if not writable and self._disk.is_directory(self._root / name):
            return None  # a directory opened for reading is of no use, and only the real disk allows it
        file = self._disk.open(self._root / name, create=create, writable=writable)
        if slot in self._files:
            self._files[slot].close()
        self._files[slot] = file
        return file.size()

    def _on_file(self, operation: str, slot: int, *arguments: object) -> object:
        return getattr(self._files[slot], operation)(*arguments) if slot in self._files else None

    def _map(self, slot: int, length: int, writable: bool) -> object:
        """Reads through the map, and if it may, writes through it what `pread` must then see."""
        if slot not in self._files:
            return None
        view: mmap.mmap = self._files[slot].map(length, writable=writable)
        seen = view[:]
        if writable:
            view[length // 2] = (view[length // 2] + 1) % 256
        view.close()
        return seen, self._files[slot].pread(length, 0)

    def _rename(self, source: str, target: str) -> None:
        self._disk.rename(self._root / source, self._root / target)

    def _replace(self, name: str, content: bytes, keep_backup: bool) -> None:
        self._disk.replace(self._root / name, content, keep_backup=keep_backup)


def everything(disk: Disk, directory: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in disk.list(directory):
        path = directory / name
        found[name] = everything(disk, path) if disk.is_directory(path) else disk.read(path)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=30))
def test_both_disks_answer_the_same(sequence: list[Step]) -> None:
    real, twin = LocalDisk(threads=1), FaultyDisk(directories=[Path("/store")])
    with tempfile.TemporaryDirectory() as directory:
        programs = [Program(real, Path(directory)), Program(twin, Path("/store"))]
        try:
            for step in sequence:
                answers = [program.do(step) for program in programs]
                assert answers[0] == answers[1], step
            assert everything(real, Path(directory)) == everything(twin, Path("/store"))
        finally:
            for program in programs:
                program.close()
            real.close()


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, max_size=20), st.integers(0, 2**32))
def test_after_syncing_everything_no_power_cut_changes_anything(sequence: list[Step], seed: int) -> None:
    disk = FaultyDisk(directories=[Path("/store")])
    program = Program(disk, Path("/store"))
    for step in sequence:
        program.do(step)
    program.close()
    sync_everything(disk, Path("/store"))
    expected = everything(disk, Path("/store"))
    assert everything(disk.after_power_loss(seed), Path("/store")) == expected


def sync_everything(disk: FaultyDisk, directory: Path) -> None:
    for name in disk.list(directory):
        path = directory / name
        if disk.is_directory(path):
            sync_everything(disk, path)
        else:
            file = disk.open(path)
            file.fdatasync()
            file.close()
    disk.sync_directory(directory)
