"""The index: files in which messages are found by `topic#key`, newest last.

    index/20231114221320123      named by the local time of their making

Rule 1: messages are indexed in the order of the log; a file covers a stretch of it.
Rule 2: a file that is full is synced in the background, and then the checkpoint may say so.
Rule 3: keys are hashed and not stored: a query may return messages of other keys, which the asker sorts out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from skyrocketmq.hot.layout import KEY_BYTES
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.store.cold_reads import Steps
from skyrocketmq.store.index_file import IndexFile, IndexLayout
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.store.threads import run_to_end

__all__ = ["FoundKeys", "Index"]

logger = logging.getLogger(__name__)

OPEN_FILES_MAX: Final = 16
NAME_DIGITS: Final = 17


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """Log offsets of a key's messages, newest first, and how far the index reaches."""

    log_offsets: tuple[int, ...]
    last_update_ms: int
    last_update_offset: int


class Index:
    """The row of index files. Loop's thread only."""

    def __init__(self, disk: Disk, clock: Clock, directory: Path, layout: IndexLayout) -> None:
        self.files: list[IndexFile] = []
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._layout = layout
        self._open_files = OpenFiles(disk, count_max=OPEN_FILES_MAX)
        self._unsynced: dict[Path, None] = {}
        self._is_new = False  # a file was made whose name may not be durable yet

    @property
    def end_offset(self) -> int:
        """The newest message that is indexed; -1 if none is."""
        for file in reversed(self.files):
            if file.count > 1:
                return file.end_offset
        return -1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.path.name for file in self.files)

    # ---------------------------------------------------------------------------------------------------- writing

    def put_all(self, keys: bytes) -> int:
        """Index messages by their packed keys (`hot.pack_key`); returns how many bytes of them were taken: all, unless
        the disk fails.

        Raises `DiskFull` or `OSError` if not a single one could be.
        """
        done = 0
        try:
            while done < len(keys):
                file = self._writable_file()
                part = keys[done : done + file.room * KEY_BYTES]
                file.put_all(part)
                self._unsynced[file.path] = None
                done += len(part)
        except Exception:
            if not done:
                raise
        return done

    def _writable_file(self) -> IndexFile:
        last = self.files[-1] if self.files else None
        if last is not None and not last.is_full:
            last.open_for_writing()
            return last
        file = IndexFile(self._open_files, self._directory / self._new_name(last), self._layout)
        file.create(self._disk, after=last)
        if last is not None:
            last.seal()
        self.files.append(file)
        self._is_new = True
        return file

    def _new_name(self, last: IndexFile | None) -> str:
        name = time_name(self._clock.now_ms())
        if last is not None and name <= last.path.name:  # two in one millisecond, or a clock that was set back
            name = f"{int(last.path.name) + 1:0{NAME_DIGITS}d}"
        return name

    async def sync(self) -> None:
        """Make everything put so far durable. Raises `OSError` if the disk fails."""
        for path in list(self._unsynced):
            file = self._open_files.hold(path)
            del self._unsynced[path]  # what is put while the sync runs belongs to the next one
            try:
                await run_to_end(self._disk, file.fdatasync)
            finally:
                self._open_files.release(file)
        if self._is_new:
            self._is_new = False
            await run_to_end(self._disk, self._disk.sync_directory, self._directory)

    def sync_now(self) -> None:
        """The same for recovery, with the names of deleted files too. Blocks."""
        for path in self._unsynced:
            self._open_files.get(path).fdatasync()
        self._unsynced.clear()
        self._disk.sync_directory(self._directory)
        self._is_new = False

    # ---------------------------------------------------------------------------------------------------- reading

    def find(self, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int) -> Steps[FoundKeys]:
        """Messages of a key that were stored between the two times, both included; the newest first."""
        key_hash = TopicKeys(topic).hash_of(key.encode("utf-8", "replace"))
        found: list[int] = []
        files = self.files[::-1]
        newest = files[0] if files else None
        for file in files:
            if file.begin_ms <= end_ms and file.end_ms >= begin_ms:
                found += yield from file.find(
                    key_hash, count_max=count_max - len(found), begin_ms=begin_ms, end_ms=end_ms
                )
            if file.begin_ms < begin_ms or len(found) >= count_max:
                break
        if newest is None:
            return FoundKeys((), 0, 0)
        return FoundKeys(tuple(found), newest.end_ms, newest.end_offset)

    # --------------------------------------------------------------------------------------- loading and recovery

    def load(self) -> bool:
        """Find the files; False if one has another size, so that the whole index must be made anew. Blocks.

        A last file of another size is dropped: most likely a crash came before its size was on disk.
        """
        names = [name for name in self._disk.list(self._directory) if self._is_name(name)]
        for name in names:
            file = IndexFile(self._open_files, self._directory / name, self._layout)
            self.files.append(file)
            size = self._open_files.get(file.path).size()
            if size == self._layout.file_bytes:
                file.load()
                continue
            logger.warning(
                "index file of another size, its part is made anew",
                extra={"path": str(file.path), "bytes": size, "expected": self._layout.file_bytes},
            )
            self._drop(file)
            if name != names[-1]:
                return False
        return True

    def _is_name(self, name: str) -> bool:
        if len(name) == NAME_DIGITS and name.isascii() and name.isdecimal():
            return True
        logger.warning("not an index file, ignored", extra={"path": str(self._directory / name)})
        return False

    def cut(self, end: int, *, suspects_from: int | None = None) -> None:
        """Forget messages from log offset `end` on; what is before is known to be on disk. Blocks.

        Files from number `suspects_from` on were written to before a crash: their slots are made anew in any case.
        """
        for number, file in enumerate(list(self.files)):
            if file.end_offset >= end or (suspects_from is not None and number >= suspects_from):
                file.cut(end)
                if file.count <= 1:
                    self._drop(file)

    def keep_synced(self, synced_ms: int) -> int:
        """After a crash, when only a time is known: keep files that were full and synced before it, drop the others.

        Returns the log offset to index from. Blocks.
        """
        trusted = 0
        for file in self.files:
            if not (file.is_full and 0 < file.end_ms <= synced_ms):
                break
            trusted += 1
        for file in self.files[trusted:]:
            self._drop(file)
        if not self.files:
            return 0
        resume = self.files[-1].end_offset
        self.cut(resume)  # that message may have had more keys in the next file, so it is indexed again
        return resume

    def _drop(self, file: IndexFile) -> None:
        self.files.remove(file)
        self._open_files.forget(file.path)
        self._disk.unlink(file.path)

    def take_old(self, log_min: int) -> list[Path]:
        """Forget files, never the newest, that know only messages before this log offset; the caller deletes them."""
        paths: list[Path] = []
        while len(self.files) > 1 and self.files[0].end_offset < log_min:
            file = self.files.pop(0)
            file.seal()
            self._unsynced.pop(file.path, None)
            self._open_files.forget(file.path)
            paths.append(file.path)
        return paths

    def clear(self) -> None:
        """Delete all files, to make the index anew. Blocks."""
        for file in self.files:
            self._open_files.forget(file.path)
        self.files.clear()
        self._unsynced.clear()
        for name in self._disk.list(self._directory):
            self._open_files.forget(self._directory / name)
            self._disk.unlink(self._directory / name)

    def close(self) -> None:
        for file in self.files:
            file.seal()
        self._open_files.close()


def time_name(moment_ms: int) -> str:
    """A time as the name of an index file: local, down to the millisecond."""
    moment = datetime.fromtimestamp(moment_ms // 1000)
    return f"{moment:%Y%m%d%H%M%S}{moment_ms % 1000:03d}"
