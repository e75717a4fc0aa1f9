"""Rows of files: equal in size, each named by the position of its first byte in the array that they form together.

    00000000000000000000   00000000001073741824   00000000002147483648

Commit log and consume queues are such rows. Rule 1: a file has its full size from the beginning; one that has another
size belongs to a store with other settings, and reading it would misplace every offset, so it is refused. Rule 2: the
exception is a last file that a crash interrupted while it was being made; who owns the row says what becomes of it.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from skyrocketmq.errors import DiskFull, StoreError
from skyrocketmq.ports import Disk

__all__ = [
    "RowFile",
    "create_reserved",
    "create_sparse",
    "directory_for",
    "file_name",
    "load_row",
    "make_directories",
    "translated",
    "wrong_size",
]

logger = logging.getLogger(__name__)

NAME_DIGITS = 20
FULL_PATH_RATIO = 0.85  # of several directories, one that is fuller gets no new file


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of a row as it was found on disk."""

    start: int
    path: Path
    size: int


def file_name(start: int) -> str:
    return f"{start:0{NAME_DIGITS}d}"


def load_row(
    disk: Disk, directories: Sequence[Path], *, file_bytes: int, key: str, may_be_short: bool = False
) -> list[RowFile]:
    """The files of a row in order; only the last may be shorter than `file_bytes`, or, if `may_be_short`, any.

    `key` is the operator's name of the setting that the sizes must agree with. Raises `StoreError` for files that
    belong to no row of this size. Names that are not positions (`lost+found`) are passed over.
    """
    found: dict[int, RowFile] = {}
    for directory in directories:
        for name in disk.list(directory):
            path = directory / name
            if len(name) != NAME_DIGITS or not (name.isascii() and name.isdecimal()):
                logger.warning("not a store file, ignored", extra={"path": str(path)})
                continue
            start = int(name)
            if start in found:
                raise StoreError(f"{path} and {found[start].path} both claim offset {start}: remove one of them")
            found[start] = RowFile(start, path, _size(disk, path))
    row = [found[start] for start in sorted(found)]
    for file in row:
        if file.size != file_bytes and not (file.size < file_bytes and (may_be_short or file is row[-1])):
            raise wrong_size(file, file_bytes=file_bytes, key=key)
        if file.start % file_bytes != 0:
            raise StoreError(f"{file.path} does not begin at a multiple of {key} = {file_bytes}")
    for before, after in pairwise(row):
        if after.start != before.start + file_bytes:
            logger.warning("files are missing", extra={"after": str(before.path), "before": str(after.path)})
    return row


def wrong_size(file: RowFile, *, file_bytes: int, key: str) -> StoreError:
    error = StoreError(f"{file.path} has {file.size} bytes, {key} says {file_bytes}")
    error.add_note(f"Set {key} back to the value the store was written with, or move the store away.")
    return error


def _size(disk: Disk, path: Path) -> int:
    file = disk.open(path, writable=False)
    try:
        return file.size()
    finally:
        file.close()


def make_directories(disk: Disk, path: Path) -> None:
    """Make a directory and those above it, with durable names: else a power cut may take all that is in it. Blocks."""
    missing = [directory for directory in (path, *path.parents) if not disk.exists(directory)]
    disk.make_directories(path)
    for directory in reversed(missing):
        disk.sync_directory(directory.parent)


def create_reserved(disk: Disk, path: Path, file_bytes: int) -> None:
    """Make a file of full size whose blocks are reserved: a full disk is an error here, never at a later write.

    Blocks. May be called twice for one file, even at the same time. Raises `DiskFull` or `OSError`; then the file may
    exist unfinished, and the caller, who knows whether it is in use already, deletes it.
    """
    try:
        make_directories(disk, path.parent)
        file = disk.open(path, create=True)
        try:
            file.allocate(file_bytes)
            file.fdatasync()  # its size has to survive a power cut: a short file with messages would be refused
        finally:
            file.close()
        disk.sync_directory(path.parent)
    except OSError as error:
        raise translated(error, path) from error


def create_sparse(disk: Disk, path: Path, file_bytes: int) -> None:
    """Make a file of full size that takes space only where it is written; its writers must stand a full disk."""
    file = disk.open(path, create=True)
    try:
        file.truncate(file_bytes)
    finally:
        file.close()


def translated(error: OSError, path: Path) -> StoreError | OSError:
    """A full disk as `DiskFull`, any other trouble as it is."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space for {path}: free some, the store goes on by itself")
    return error


def directory_for(
    number: int, directories: Sequence[Path], *, read_only: frozenset[Path], used_ratio: dict[Path, float]
) -> Path:
    """Where file `number` of a row goes that is spread over several directories, in turn.

    Read-only directories get no file; fuller ones neither, unless all are full.
    """
    writable = [path for path in directories if path not in read_only] or list(directories)
    roomy = [path for path in writable if used_ratio.get(path, 0.0) <= FULL_PATH_RATIO] or writable
    return roomy[number % len(roomy)]
