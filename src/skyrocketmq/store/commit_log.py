"""The commit log: every message of a broker, one record after the other, in files of equal size.

A hot module: all that is stored passes `append`, all that is pulled passes `peek`.

Rule 1: written by `pwrite`, read through a read-only map of the same pages. Mapped writes into a fresh file stall the
loop for tens of milliseconds, reads through a map cost nothing as long as the pages are there.
Rule 2: only what this process wrote lately is sure to be in memory and read through the map. For anything older the
page cache is asked (`is_cached`, `pread_cached`); what is not there either, the caller fetches in a helper thread.
Rule 3: a record never spans two files. The writer closes a file with a blank record and goes on in the next one, which
was reserved on the disk before it was needed; there is no waiting in between.
Rule 4: nobody unmaps. A slice that a slow connection still holds keeps its map alive, also of a deleted file; the map
goes with the last slice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from skyrocketmq.model.offsets import LogOffset
from skyrocketmq.ports import Disk, File
from skyrocketmq.store.cold_reads import ColdRange
from skyrocketmq.store.cut_mark import CutMark
from skyrocketmq.store.file_rows import (
    RowFile,
    create_reserved,
    directory_for,
    file_name,
    load_row,
    translated,
    wrong_size,
)
from skyrocketmq.store.flushed_note import FlushedNote
from skyrocketmq.store.intact import BadRecords
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.store.threads import run_to_end
from skyrocketmq.store.vouchers import Vouchers
from skyrocketmq.wire.records import BLANK_BYTES, encode_blank

__all__ = ["NEVER", "CommitLog", "LogFile"]

logger = logging.getLogger(__name__)

KEY: Final = "mappedFileSizeCommitLog"
OPEN_FILES_MAX: Final = 64
WARM_BYTES: Final = 64 << 20  # read through the map without asking the page cache whether it is there
WRITE_AGAIN_BYTES: Final = 1 << 20
NEVER: Final = 1 << 63
SCAN_BYTES: Final = 4 << 20


class LogFile:
    """One file of the log. `view` is its map, present in the warm tail and where older messages were read lately."""

    __slots__ = ("path", "start", "view")

    def __init__(self, start: int, path: Path) -> None:
        self.start = start
        self.path = path
        self.view: memoryview | None = None


class CommitLog:
    """The files, the end of what is written, and the end of what is flushed. One thread writes: the loop's."""

    def __init__(
        self,
        disk: Disk,
        directories: tuple[Path, ...],
        *,
        file_bytes: int,
        cut_mark: Path,
        vouchers: Vouchers,
        flushed_note: FlushedNote,
        ships_flushed_only: bool = False,
        read_only: frozenset[Path] = frozenset(),
        warm_bytes: int = WARM_BYTES,
    ) -> None:
        self.file_bytes = file_bytes
        self.max_offset = LogOffset(0)  # where the next record begins
        self.flushed_offset = LogOffset(0)  # everything below is known to be durable
        self.spare_mark = NEVER  # once the log is this long, the next file is wanted
        self.unfinished_bytes = 0  # at the end of a slave's copy: of a record that has not come whole yet
        self.on_spare_wanted: Callable[[], None] = _nobody
        self.on_append: Callable[[], None] = _nobody  # the log has grown; called once a batch
        self.open_files = OpenFiles(disk, count_max=OPEN_FILES_MAX)
        self.bad_records = BadRecords()  # that readers met
        self.vouchers = vouchers
        self._flushed_note = flushed_note
        self._ships_flushed_only = ships_flushed_only
        self._disk = disk
        self._directories = directories
        self._read_only = read_only
        self._cut_mark = CutMark(disk, cut_mark)
        self._warm_bytes = warm_bytes
        self._warm_from = 0
        self._files: dict[int, LogFile] = {}  # by start, in order
        self._current: LogFile | None = None
        self._writer: File | None = None  # of the current file, held open
        self._spare: Path | None = None  # the next file, reserved
        self._wanted: tuple[int, Path] | None = None  # start and path of the next file, once it was asked for
        self._is_reserving = False
        self._garbage_end = 0  # a failed write may have left bytes up to here

    # ----------------------------------------------------------------------------------------------------- extent

    @property
    def min_offset(self) -> LogOffset:
        """The first byte that is kept; the end of the log where it has no files."""
        for start in self._files:
            return LogOffset(start)
        return self.max_offset

    @property
    def whole_offset(self) -> LogOffset:
        """Where the last whole record ends, and with it what queues and index can know of."""
        return LogOffset(self.max_offset - self.unfinished_bytes)

    @property
    def shippable_offset(self) -> LogOffset:
        """Slaves may copy up to here. With synchronous flush that is what is durable: a slave that has more than its
        master after a power cut could not go on as its copy."""
        return self.flushed_offset if self._ships_flushed_only else self.max_offset

    @property
    def own_from(self) -> int:
        """What this process has written begins here; what is older is looked at before it is believed."""
        return self._warm_from

    @property
    def file_starts(self) -> list[int]:
        return list(self._files)

    @property
    def files(self) -> list[LogFile]:
        return list(self._files.values())

    @property
    def by_start(self) -> Mapping[int, LogFile]:
        """The files as they are, by where they begin."""
        return self._files

    @property
    def limit(self) -> int:
        """A record may end here at the latest in the current file; 0 if there is none that could be written to."""
        current = self._current
        return 0 if current is None else current.start + self.file_bytes - BLANK_BYTES

    def next_file_start(self, offset: int) -> int:
        """Where the file after the one with this offset begins."""
        return offset - offset % self.file_bytes + self.file_bytes

    # ---------------------------------------------------------------------------------------------------- writing

    def append(self, data: bytes, vouched: Sequence[tuple[int, int]] = ()) -> None:
        """Write whole records at the end. The caller has made sure that they fit in the current file.

        `vouched` says where records begin and end that need a voucher. Raises `DiskFull` or `OSError`; then nothing was
        appended.
        """
        if vouched:
            self._vouch(data, vouched)
        self._write(data)
        if self.max_offset >= self.spare_mark:
            self.spare_mark = NEVER
            self.on_spare_wanted()
        self.on_append()

    def begin_at(self, start: int) -> None:
        """Let a log without files begin here, where a file begins: a slave's copy begins where its master says."""
        assert not self._files, "only an empty log can begin anywhere"
        assert start % self.file_bytes == 0, "a log begins with a file"
        self.max_offset = self.flushed_offset = LogOffset(start)
        assert self._spare is None, "nobody prepares files for a copy before it has begun"

    def append_copy(self, data: bytes) -> None:
        """Write a piece of another broker's log at the end, wherever its records begin; it must not cross files.

        Raises `DiskFull` or `OSError`; then nothing was appended.
        """
        if self._current is None or self.max_offset == self._current.start + self.file_bytes:
            self._use(self._next_file(int(self.max_offset)))
        self.append(data, ((int(self.max_offset), self.max_offset + len(data)),))

    def vouch_for_whole(self) -> None:
        """Vouch for what `drop_unfinished` leaves of the last pieces. Raises `DiskFull` or `OSError`."""
        if self.unfinished_bytes:
            self.vouchers.vouch_again(int(self.whole_offset), self._read)

    def drop_unfinished(self) -> None:
        """Forget a record of which only the beginning was copied: whoever goes on with this log gets it whole.

        `vouch_for_whole` comes first, and a sync of the vouchers: the entry for a whole piece does not match any more.
        """
        if self.unfinished_bytes:
            self._garbage_end = int(self.max_offset)
            self.max_offset = self.whole_offset
            self.flushed_offset = LogOffset(min(self.flushed_offset, self.max_offset))
            self.unfinished_bytes = 0
            self.erase_garbage()

    def _vouch(self, data: bytes, ranges: Sequence[tuple[int, int]]) -> None:
        first = int(self.max_offset)
        for begin, end in ranges:
            self.vouchers.vouch(begin, memoryview(data)[begin - first : end - first])

    def begin_vouchers(self) -> None:
        """A checkpoint is being made: what it does not cover gets its vouchers in a file of their own."""
        whole, end = int(self.whole_offset), int(self.max_offset)
        self.vouch_for_whole()  # the beginning of a record may be dropped before the checkpoint is durable
        self.vouchers.begin(whole)
        if whole < end:  # the beginning of a record, whose rest is yet to come to this copy
            self.vouchers.vouch(whole, self._read(whole, end))

    def _write(self, data: bytes) -> None:
        current, writer, first = self._current, self._writer, self.max_offset
        assert current is not None, "make_room comes first"
        assert writer is not None, "make_room comes first"
        end = first + len(data)
        assert end <= current.start + self.file_bytes, "records do not span files"
        if end < self._garbage_end:
            # Parts of records that were never acknowledged must not come back to life behind this one.
            data += bytes(self._garbage_end - end)
        try:
            writer.pwrite(data, first - current.start)
        except OSError as error:
            self._garbage_end = max(self._garbage_end, first + len(data))
            self.erase_garbage()
            raise translated(error, current.path) from error
        self._garbage_end = 0
        self.max_offset = LogOffset(end)

    def erase_garbage(self) -> None:
        """Wipe what a failed write has left: whole records may be among it, and a restart would take them for stored.

        A disk that fails again keeps it for now: the next append covers it, or this is called again.
        """
        current, writer, first = self._current, self._writer, self.max_offset
        if self._garbage_end <= first or current is None or writer is None:
            return
        try:
            writer.pwrite(bytes(self._garbage_end - first), first - current.start)
        except OSError as error:
            logger.warning("failed write not wiped yet", extra={"path": str(current.path), "error": str(error)})
        else:
            self._garbage_end = 0

    def make_room(self, record_bytes: int) -> None:
        """See to it that so many bytes fit in the current file, opening the next one if they do not.

        Raises `DiskFull` or `OSError` if there is no next file and none can be made; then nothing has changed.
        """
        assert record_bytes + BLANK_BYTES <= self.file_bytes, "a batch refuses what fits in no file"
        current = self._current
        if current is None:
            start = int(self.max_offset)
            assert start % self.file_bytes == 0, "a log without a file to write to ends at the end of a file"
            self._use(self._next_file(start))
            return
        if self.max_offset + record_bytes <= current.start + self.file_bytes - BLANK_BYTES:
            return
        next_start = current.start + self.file_bytes
        following = self._next_file(next_start)
        self._write(encode_blank(next_start - self.max_offset))
        self.max_offset = LogOffset(next_start)
        self._use(following)

    def next_file_path(self) -> Path | None:
        """The file to reserve now, in a helper thread; None if it is there already or not needed yet."""
        current = self._current
        start = int(self.max_offset) if current is None else current.start + self.file_bytes
        if self._spare is not None or (current is not None and self.max_offset < start - self.file_bytes // 2):
            return None
        if self._wanted is None or self._wanted[0] != start:
            self._wanted = (start, self._new_path(start))
        self._is_reserving = True
        return self._wanted[1]

    def spare_ready(self, path: Path) -> None:
        """The file asked for by `next_file_path` is on the disk."""
        self._is_reserving = False
        if not self._is_used(path):  # else a roll was faster and made it itself
            self._spare = path

    def spare_failed(self, path: Path) -> bool:
        """The file could not be reserved: whether to delete what there is of it. A roll may have been luckier."""
        self._is_reserving = False
        self._mark_spare()
        return not self._is_used(path)

    def _is_used(self, path: Path) -> bool:
        return any(file.path == path for file in self._files.values())

    def _next_file(self, start: int) -> LogFile:
        """The file that begins here, on the disk and mapped. If it was prepared, this does not wait for the disk."""
        path = self._spare
        if path is None:
            path = self._wanted[1] if self._wanted is not None and self._wanted[0] == start else self._new_path(start)
            try:
                # A helper thread may be making it at this moment: two that reserve one file do not disturb each other.
                create_reserved(self._disk, path, self.file_bytes)
            except Exception:
                if not self._is_reserving:
                    self._disk.unlink(path)
                raise
            self._spare = path  # if what follows fails, it is used next time
        file = LogFile(start, path)
        file.view = memoryview(self.open_files.get(path).map(self.file_bytes))
        return file

    def _use(self, file: LogFile) -> None:
        """Make this the file that is written to."""
        if self._writer is not None:
            self.open_files.release(self._writer)
        self._spare = None
        self._files[file.start] = file
        self._current = file
        self._writer = self.open_files.hold(file.path)
        self._mark_spare()
        for other in self._files.values():
            if other.start + self.file_bytes < self.max_offset - self._warm_bytes:
                other.view = None

    def _mark_spare(self) -> None:
        # Half a file ahead is early enough for the fastest writer, and keeps a laptop at one file most of the time.
        self.spare_mark = NEVER if self._current is None else self._current.start + self.file_bytes // 2

    def _new_path(self, start: int) -> Path:
        used: dict[Path, float] = {}
        if len(self._directories) > 1:
            for directory in self._directories:
                usage = self._disk.usage(directory)
                used[directory] = usage.used_bytes / max(usage.used_bytes + usage.free_bytes, 1)
        directory = directory_for(
            start // self.file_bytes, self._directories, read_only=self._read_only, used_ratio=used
        )
        return directory / file_name(start)

    # ---------------------------------------------------------------------------------------------------- flushing

    async def flush(self, end: int) -> None:
        """Make everything up to `end`, which is written, durable. Raises `OSError` if the disk fails: that is final."""
        paths = [
            file.path
            for start, file in self._files.items()
            if start < end and start + self.file_bytes > self.flushed_offset
        ]
        files = [self.open_files.hold(path) for path in paths]
        vouch = self.vouchers.take_unsynced()
        try:
            await run_to_end(self._disk, self._sync_all, files, vouch, min(end, int(self.whole_offset)))
        finally:
            for file in files:
                self.open_files.release(file)
        self.flushed_offset = LogOffset(max(self.flushed_offset, end))
        if self._ships_flushed_only:
            self.on_append()

    def _sync_all(self, files: list[File], vouch: Callable[[], None] | None, end: int) -> None:
        if vouch is not None:
            vouch()
        for file in files:
            file.fdatasync()
        try:
            self._flushed_note.write(end)
        except OSError as error:
            logger.warning("what is flushed could not be noted", extra={"error": str(error)})

    async def sync_vouchers(self) -> None:
        """Make all vouchers durable. Raises `OSError` if the disk fails: that is final."""
        if (vouch := self.vouchers.take_unsynced()) is not None:
            await run_to_end(self._disk, vouch)

    def note_flushed(self, end: int) -> bool:
        """Note durably, but for the note's name, that the log is flushed up to here; whether that succeeded. Blocks."""
        try:
            self._flushed_note.sync(end)
        except OSError as error:
            logger.warning("what is flushed could not be noted", extra={"error": str(error)})
            return False
        return True

    # ---------------------------------------------------------------------------------------------------- reading

    def has(self, position: int, size: int) -> bool:
        """Whether so many bytes are kept here, within one file."""
        start = position - position % self.file_bytes
        return size > 0 and start in self._files and position + size <= min(self.max_offset, start + self.file_bytes)

    def peek(self, position: int, size: int) -> memoryview | bytes | None:
        """The bytes, which `has` must have found to be there, if they are in memory; None if they are cold."""
        start = position - position % self.file_bytes
        file = self._files[start]
        at = position - start
        view = file.view
        if view is not None and position >= self._warm_from and self.max_offset - position <= self._warm_bytes:
            return view[at : at + size]
        return self.open_files.get(file.path).pread_cached(size, at)

    def warm_view(self, begin: int, end: int) -> memoryview | None:
        """The map of the file that holds all bytes from `begin` to `end`, if every one of them is in memory."""
        start = begin - begin % self.file_bytes
        file = self._files.get(start)
        if file is None or end > start + self.file_bytes or end > self.max_offset:
            return None
        if begin >= self._warm_from and self.max_offset - begin <= self._warm_bytes and file.view is not None:
            return file.view
        opened = self.open_files.get(file.path)
        if not opened.is_cached(begin - start, end - begin):
            return None
        if file.view is None:
            file.view = memoryview(opened.map(self.file_bytes))
        return file.view

    def _read(self, begin: int, end: int) -> bytes:
        """The bytes from `begin` to `end`, across files; fewer if they are not all there. May block."""
        parts = []
        while begin < end:
            start = begin - begin % self.file_bytes
            if (file := self._files.get(start)) is None:
                break
            length = min(end, start + self.file_bytes) - begin
            parts.append(self.open_files.get(file.path).pread(length, begin - start))
            begin += length
        return b"".join(parts)

    def cold_range(self, position: int, size: int) -> ColdRange:
        """Where to fetch what `peek` did not find in memory."""
        start = position - position % self.file_bytes
        file = self._files.get(start)
        if file is None:
            raise FileNotFoundError(f"the log file at {start} was deleted meanwhile")
        return ColdRange(self.open_files, file.path, position - start, size)

    # --------------------------------------------------------------------------------------- loading and recovery

    def load(self) -> None:
        """Find the files. An unfinished last one, left by a crash while it was being reserved, is deleted. Blocks."""
        self._cut_mark.finish(self._directories, file_bytes=self.file_bytes)
        row = load_row(self._disk, self._directories, file_bytes=self.file_bytes, key=KEY)
        if row and row[-1].size < self.file_bytes:
            self._drop_unfinished(row.pop())
        self._files = {file.start: LogFile(file.start, file.path) for file in row}
        self.max_offset = LogOffset(row[-1].start + self.file_bytes if row else 0)

    def _drop_unfinished(self, file: RowFile) -> None:
        opened = self._disk.open(file.path)
        try:
            head = opened.pread(BLANK_BYTES, 0)
        finally:
            opened.close()
        if head != bytes(len(head)):
            raise wrong_size(file, file_bytes=self.file_bytes, key=KEY)
        logger.info("unfinished log file deleted", extra={"path": str(file.path), "bytes": file.size})
        self._disk.unlink(file.path)

    def cut(self, end: int, *, trusted_end: int, erase: bool) -> None:
        """End the log here, after recovery: later files are deleted, and what follows in this file, if `erase`.

        Whatever was left there would look like records once new ones have been written up to it. What lies between
        `trusted_end` and the end was found intact, but maybe only in the page cache: it counts as not flushed. Blocks.
        """
        if erase:
            self.vouchers.shorten(end, self._read)
        for start in [start for start in self._files if start >= end]:
            file = self._files.pop(start)
            self.open_files.forget(file.path)
            self._disk.unlink(file.path)
            logger.info("log file behind the end deleted", extra={"path": str(file.path), "end": end})
        self.max_offset = LogOffset(end)
        self._warm_from = end
        start = end - end % self.file_bytes
        if end % self.file_bytes and start in self._files:
            self._continue(self._files[start], erase=erase)
        self.flushed_offset = LogOffset(min(trusted_end, end))

    def begin_notes(self, owner_id: str) -> None:
        """The log's end is known; what is written from here on is vouched for and noted in this owner's name."""
        self.vouchers.begin(int(self.max_offset))
        self._flushed_note.begin(owner_id)

    def write_again(self) -> None:
        """Write and sync what is not known to be durable, as it was found: the system may take it for written. Blocks.

        Raises `OSError` if the disk fails again.
        """
        for file in self.files:
            at, end = max(self.flushed_offset - file.start, 0), min(self.max_offset - file.start, self.file_bytes)
            if at >= end:
                continue
            opened = self.open_files.get(file.path)
            while at < end:
                data = opened.pread(min(WRITE_AGAIN_BYTES, end - at), at)
                opened.pwrite(data, at)
                at += len(data)
            opened.fdatasync()
        self.flushed_offset = self.max_offset

    def _continue(self, file: LogFile, *, erase: bool) -> None:
        opened = self.open_files.get(file.path)
        if erase and not _is_zero_from(opened, self.max_offset - file.start, self.file_bytes):
            self._cut_mark.cut(opened, self.max_offset - file.start, file_bytes=self.file_bytes)
        file.view = memoryview(opened.map(self.file_bytes))
        self._use(file)

    # --------------------------------------------------------------------------------------------------- cleaning

    def deletable_files(self) -> list[LogFile]:
        """All files but the newest, oldest first, as far as they are flushed."""
        files = list(self._files.values())[:-1]
        return [file for file in files if file.start + self.file_bytes <= self.flushed_offset]

    def drop(self, file: LogFile) -> None:
        """Forget the oldest file: nobody finds it any more. The caller deletes it."""
        assert file.start == self.min_offset, "the log has no holes"
        del self._files[file.start]
        file.view = None
        self.open_files.forget(file.path)

    def close(self) -> None:
        """Give back the spare file and all descriptors. What was written is in the page cache, flushed or not."""
        if self._spare is not None:
            self._disk.unlink(self._spare)
            self._spare = None
        self._current = self._writer = None
        for file in self._files.values():
            file.view = None
        self.open_files.close()
        self.vouchers.close()
        self._flushed_note.close()


def _is_zero_from(file: File, position: int, end: int) -> bool:
    """Whether nothing was ever written there, as after most crashes: then there is nothing to wipe, and to wait for."""
    zeros = bytes(SCAN_BYTES)
    while position < end:
        data = file.pread(min(SCAN_BYTES, end - position), position)
        if not data or not zeros.startswith(data):
            return False
        position += len(data)
    return True


def _nobody() -> None:
    """Called when a spare file is wanted and nobody prepares one: the roll then makes its file itself.

    Or when the log has grown, and no slave copies it."""
