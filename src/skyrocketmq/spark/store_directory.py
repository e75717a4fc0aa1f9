"""A store directory as a plan sees it: which files there are, and up to where they are whole at this moment.

Rule 1: nothing is written and nothing is locked: a broker may be at work here. The end of the log is that of its last
good record now; what is appended later is not part of the plan, and what stands before never changes.
Rule 2: a directory that is no store, files of another size than the store's, and a log that is not where the queues
say are errors. A plan over them would look complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from skyrocketmq.config import StoreConfig, load_broker_config
from skyrocketmq.errors import StoreError
from skyrocketmq.hot.layout import INDEX_HEADER_BYTES
from skyrocketmq.ports import Disk, LocalDisk
from skyrocketmq.spark.filters import Interval
from skyrocketmq.spark.store_options import StoreOptions
from skyrocketmq.spark.store_planning import Cut, IndexPart, QueuePart, cell_range
from skyrocketmq.store.commit_log import KEY as LOG_KEY
from skyrocketmq.store.commit_log import NEVER, LogFile
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE
from skyrocketmq.store.consume_queue import KEY as QUEUE_KEY
from skyrocketmq.store.file_rows import RowFile, load_row
from skyrocketmq.store.index import NAME_DIGITS
from skyrocketmq.store.index_file import HEADER, IndexLayout
from skyrocketmq.store.log_files import LogFiles, require_log
from skyrocketmq.store.log_scan import LogScan, next_record
from skyrocketmq.store.store_sizes import fitted_config, log_path_of
from skyrocketmq.wire.records import BLANK_BYTES

__all__ = ["Queue", "StoreDirectory", "open_store"]

TRIES: Final = 3  # a broker deletes and makes files while they are listed
SEARCH_BYTES: Final = 64 << 10
STEPS: Final = (16 << 20, 1 << 20, 64 << 10)
ZEROS: Final = bytes(1 << 20)
TORN_BYTES: Final = 8 << 20  # as much as a message can have
BEHIND_BYTES: Final = 3200 * CELL_BYTES


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its files, of which none need be there."""

    topic: str
    queue_id: int
    files: tuple[RowFile, ...]


@contextmanager
def open_store(options: StoreOptions) -> Iterator[StoreDirectory]:
    """Look at a store. Raises `StoreError` for what is none, and `ConfigError` for a configuration that is none."""
    disk = LocalDisk()
    try:
        yield _looked_at(disk, options)
    finally:
        disk.close()


def _looked_at(disk: Disk, options: StoreOptions) -> StoreDirectory:
    for left in reversed(range(TRIES)):
        try:
            return StoreDirectory(disk, _config(disk, options))
        except FileNotFoundError as error:
            if not left:
                raise StoreError(f"{error.filename} vanished while the store was looked at: try again") from error
    raise AssertionError("the last try returns or raises")


def _config(disk: Disk, options: StoreOptions) -> StoreConfig:
    """The settings the store was written with, as far as its files or the options tell."""
    if not disk.is_directory(options.directory):
        raise StoreError(f"{options.directory} is no directory: give the one that storePathRootDir names")
    root = options.directory.resolve()
    given = dict(options.settings)
    loaded = load_broker_config(options.config_path, environ={}, overrides=given).config.store
    placed = replace(loaded, root_path=root, commit_log_path=log_path_of(root, loaded))
    return fitted_config(
        disk,
        placed,
        knows_log_size=options.config_path is not None or LOG_KEY in given,
        knows_queue_size=options.config_path is not None or QUEUE_KEY in given,
        writes=False,
    )


class StoreDirectory:
    """The files of a store as they were when this was made. Blocks."""

    def __init__(self, disk: Disk, config: StoreConfig) -> None:
        self.root = config.root_path
        self.log = LogFiles(disk, config)
        if not self.log.files and not any(disk.is_directory(place) for place in self._places(config)):
            raise StoreError(f"{self.root} holds no store: there is neither a commit log nor a consume queue")
        require_log(disk, config, self.log)
        self._disk = disk
        self._config = config
        self.begin = self.log.begin

    @property
    def config(self) -> StoreConfig:
        """The settings the store was written with, as far as known."""
        return self._config

    def _places(self, config: StoreConfig) -> list[Path]:
        return [*config.commit_log_directories, self.root / "consumequeue"]

    @property
    def file_bytes(self) -> int:
        return self.log.file_bytes

    @property
    def log_files(self) -> list[tuple[int, Path]]:
        return [(file.start, file.path) for file in self.log.files]

    # --------------------------------------------------------------------------------------------------------- log

    def cuts(self, part_bytes: int) -> list[Cut]:
        """Where records begin, about every `part_bytes`: the first good one from each such place on."""
        found: dict[int, Cut] = {}
        for file in self.log.files:
            written = self._written_bytes(file)
            for at in range(0, written, part_bytes):
                place = self._record_from(file, at, end=min(at + part_bytes, written))
                if place is not None:
                    found[file.start + place[0]] = Cut(file.start + place[0], place[1])
        return [found[log_offset] for log_offset in sorted(found)]

    def end_behind(self, cuts: list[Cut]) -> int:
        """Where the last good record ends, looked for from the last of these places on."""
        if not cuts:
            return self.begin
        last = cuts[-1].log_offset
        file = next(file for file in self.log.files if file.start <= last < file.start + self.file_bytes)
        written = self._written_bytes(file)
        start = file.start + self._late_record(file, last - file.start, end=written)
        scan = LogScan(self.log, start, check_crc=True, trusted_ms=NEVER, stop=file.start + written)
        for _ in scan.records():
            pass
        return scan.end

    def _late_record(self, file: LogFile, at: int, *, end: int) -> int:
        """A place not far before `end` where a good record begins; `at` is one. Spares a scan its way there."""
        for step in STEPS:
            while place := self._record_from(file, at + step, end=min(at + 2 * step, end)):
                at = place[0]
        return at

    def _record_from(self, file: LogFile, at: int, *, end: int) -> tuple[int, int] | None:
        return next_record(self.log, file, at, end=end, piece_bytes=SEARCH_BYTES) if at < end else None

    def _written_bytes(self, file: LogFile) -> int:
        """Behind the last byte of a file that is not zero: no record begins there."""
        opened = self.log.open_files.get(file.path)
        end = min(opened.written_bytes(), self.file_bytes)
        while end:
            begin = max(end - len(ZEROS), 0)
            data = opened.pread(end - begin, begin)
            if data != ZEROS[: len(data)]:
                return begin + len(data.rstrip(b"\0"))
            end = begin
        return 0

    def troubles(self, log_end: int) -> list[tuple[int, int, str, str]]:
        """What is wrong with the files of the log before `log_end`: from, to, file, what."""
        found = [
            (start, start + self.file_bytes, path.name, f"it has {path.stat().st_size} bytes, not {self.file_bytes}")
            for path in self.log.short
            if (start := int(path.name)) < log_end or self._holds_something(path)
        ]
        expected = self.begin
        for file in self.log.files:
            short = {start for start, *_ in found}
            if file.start > expected and not short & set(range(expected, file.start, self.file_bytes)):
                found.append((expected, file.start, file.path.name, "files before it are missing"))
            expected = file.start + self.file_bytes
        return sorted(found)

    def torn_end(self, log_end: int) -> int | None:
        """Where the bytes end that a crash left behind the last good record; None if there are only zeros."""
        file = next((file for file in self.log.files if file.start <= log_end < file.start + self.file_bytes), None)
        if file is None or next_record(self.log, file, log_end - file.start, end=log_end - file.start + 1):
            return None  # or a broker has gone on writing meanwhile
        data = self.log.open_files.get(file.path).pread(TORN_BYTES, log_end - file.start)
        used = len(data.rstrip(b"\0"))
        return log_end + used if used else None

    def _holds_something(self, path: Path) -> bool:
        """One that is just being made holds nothing yet."""
        file = self._disk.open(path, writable=False)
        try:
            return any(file.pread(BLANK_BYTES, 0))
        finally:
            file.close()

    # ------------------------------------------------------------------------------------------------------ queues

    def queues(self, *, bad: list[tuple[str, str]] | None = None, may_be_short: bool = False) -> Iterator[Queue]:
        """All queues with their files. Raises `StoreError` for files of another size, or adds what to `bad`.

        With `may_be_short` any file may be shorter than it should.
        """
        directory = self.root / "consumequeue"
        for topic in self._disk.list(directory):
            for name in self._disk.list(directory / topic):
                if name.isascii() and name.isdecimal():
                    try:
                        row = self._row(directory / topic / name, may_be_short=may_be_short)
                        yield Queue(topic, int(name), row)
                    except StoreError as error:
                        if bad is None:
                            raise
                        bad.append((f"{topic}-{name}", str(error)))

    def _row(self, directory: Path, *, may_be_short: bool) -> tuple[RowFile, ...]:
        file_bytes = self._config.queue_file_bytes
        return tuple(
            load_row(self._disk, (directory,), file_bytes=file_bytes, key=QUEUE_KEY, may_be_short=may_be_short)
        )

    def queue_part(self, queue: Queue, offsets: Interval, log: Interval) -> QueuePart | None:
        """The places of a queue with these offsets that lead to these log offsets; None if there are none."""
        file_bytes = self._config.queue_file_bytes
        files = {file.start: file.path for file in queue.files}
        if not files:
            return None

        def cell(offset: int) -> tuple[int, int]:
            return self._cell_or_before(files, offset)

        low, high = min(files) // CELL_BYTES, (max(files) + file_bytes) // CELL_BYTES
        start, end = cell_range(low, high, cell, is_filler=FILLER_SIZE.__eq__, log=log)
        while (written := self._written_behind(queue, end, log)) > end:
            _, end = cell_range(written, high, cell, is_filler=FILLER_SIZE.__eq__, log=log)
        start = max(start, offsets.low or 0)
        end = end if offsets.high is None else min(end, offsets.high + 1)
        if start >= end:
            return None
        first, last = cell(start), cell(end - 1)
        return QueuePart(
            topic=queue.topic,
            queue_id=queue.queue_id,
            start=start,
            end=end,
            queue_files=tuple((file.start, file.path) for file in queue.files),
            queue_file_bytes=file_bytes,
            log_files=tuple(
                (file.start, file.path)
                for file in self.log.files
                if file.start + self.file_bytes > first[0] and file.start <= last[0]
            ),
            log_file_bytes=self.file_bytes,
            message_bytes=max((first[1] + last[1]) // 2, 1),
        )

    def _written_behind(self, queue: Queue, end: int, log: Interval) -> int:
        """Behind the last written cell that is seen from where a queue seems to end; that place if there is none.

        A cell that is written behind one that is not shows that this one is damaged: the plan has it, and its task
        says so. Looked at are some thousands of cells that follow, and the first of each later file.
        """
        last = end
        for file in queue.files:
            at = max(end * CELL_BYTES - file.start, 0)
            if at >= self._config.queue_file_bytes:
                continue
            data = self.log.open_files.get(file.path).pread(CELL_BYTES if at == 0 else BEHIND_BYTES, at)
            if not data.strip(b"\0"):
                continue
            for number, (log_offset, size, _) in enumerate(
                CELL.iter_unpack(data[: len(data) // CELL_BYTES * CELL_BYTES])
            ):
                if 0 < size < FILLER_SIZE and (log.high is None or log_offset + size <= log.high):
                    last = max(last, (file.start + at) // CELL_BYTES + number + 1)
        return last

    def log_offset_of(self, part: QueuePart, offset: int) -> int:
        """Where a place of a queue leads."""
        return self._cell_or_before(dict(part.queue_files), offset)[0]

    def _cell_or_before(self, files: Mapping[int, Path], offset: int) -> tuple[int, int]:
        """The same as `_cell`, but of the nearest message before a filler: numbers that a power cut made a queue skip
        lead nowhere. The filler itself if there is no message before it."""
        found = self._cell(files, offset)
        file_bytes, count = self._config.queue_file_bytes, 8
        end = offset * CELL_BYTES
        while found[1] == FILLER_SIZE and end > 0:
            start = (end - 1) // file_bytes * file_bytes
            if start not in files:
                break
            begin = max(start, end - count * CELL_BYTES)
            data = self.log.open_files.get(files[start]).pread(end - begin, begin - start)
            for at in range(len(data) - CELL_BYTES, -1, -CELL_BYTES):
                log_offset, size, _ = CELL.unpack_from(data, at)
                if size != FILLER_SIZE:
                    return log_offset, size
            end, count = begin, min(count * 8, 32_768)
        return found

    def _cell(self, files: Mapping[int, Path], offset: int) -> tuple[int, int]:
        """Log offset and size at a place of a queue; zeros where there is no file."""
        file_bytes = self._config.queue_file_bytes
        start = offset * CELL_BYTES // file_bytes * file_bytes
        if start not in files:
            return 0, 0
        data = self.log.open_files.get(files[start]).pread(CELL_BYTES, offset * CELL_BYTES - start)
        return CELL.unpack(data)[:2] if len(data) == CELL_BYTES else (0, 0)

    # ------------------------------------------------------------------------------------------------------- index

    def index_files(self) -> Iterator[Path]:
        directory = self.root / "index"
        for name in self._disk.list(directory):
            if len(name) == NAME_DIGITS and name.isascii() and name.isdecimal():
                yield directory / name

    def index_part(self, path: Path, *, log_end: int) -> IndexPart:
        """The entries that a file has now. Raises `StoreError` if it is no index file of this store."""
        layout = IndexLayout(slot_count=self._config.index_slot_count, entry_count=self._config.index_entry_count)
        file = self._disk.open(path, writable=False)
        try:
            if file.size() != layout.file_bytes:
                raise StoreError(
                    f"{path} has {file.size()} bytes, index files of this store have {layout.file_bytes}: give the "
                    f"configuration of its broker with option config"
                )
            *_, count = HEADER.unpack(file.pread(INDEX_HEADER_BYTES, 0))
        finally:
            file.close()
        if not 0 <= count <= layout.entry_count:
            raise StoreError(f"{path} is damaged: its header says that it holds {count} entries")
        return IndexPart(path, layout.slot_count, 1, max(count, 1), log_end)
