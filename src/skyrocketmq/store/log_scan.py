"""Reading the log from an offset on, with all checks: in stretches of good records, for recovery, and one by one.

Rule 1: a record counts if its magic code, its lengths and its checksum are right, and its own log offset is where it
stands. Its topic and properties have no checksum: if there are zeros among them, whether they were sent or were never
written is for a `witness` to say (see `vouchers`); without one the record is believed, as Apache's brokers believe it.
Rule 2: up to `trusted_end` everything was synced, and so was all in front of a message stored before `trusted_ms`. A
bad record there is damage: it is reported and stepped over, to the next place where a record says that it belongs
exactly there. Behind it a bad record is the torn end of the log, which is ordinary after a crash, and the scan ends.
Rule 3: so it does where nothing but zeros follows, whatever is said to be synced: there is nothing to step over, and
the note may be of another log. A slave's log ends with a good record in any case, and its master sends the rest again.
Rule 4: files are read by `pread` in large pieces, because this runs in a helper thread, and a page fault in a map would
hold the whole process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot import check_records
from skyrocketmq.ports import File
from skyrocketmq.store.commit_log import LogFile
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.wire.records import (
    BLANK_BYTES,
    BLANK_MAGIC,
    MESSAGE_MAGIC,
    RECORD_BYTES_MIN,
    ScannedRecord,
    find_magic,
    scan_record,
    sizes_at,
)

__all__ = ["LogScan", "ScannedLog", "Stretch", "Witness", "first_store_time", "next_record"]

logger = logging.getLogger(__name__)

PIECE_BYTES: Final = 4 << 20
_EVER: Final = (1 << 63) - 1  # no log offset is larger

Witness = Callable[[int, int], bool]
"""Whether the bytes from one log offset to another are surely those that were to be written there."""


class ScannedLog(Protocol):
    """What is read of a log: a `CommitLog`, or its files alone."""

    @property
    def file_bytes(self) -> int: ...

    @property
    def files(self) -> Sequence[LogFile]: ...

    @property
    def open_files(self) -> OpenFiles: ...


class Stretch(NamedTuple):
    """Good records that follow each other: those from `at` to `end` in `data`."""

    data: bytes
    at: int
    end: int
    log_offset: int  # where the first of them lies

    def records(self) -> Iterator[ScannedRecord]:
        """One by one."""
        at = self.at
        while at < self.end:
            record = scan_record(self.data, at, self.end, check_crc=False)
            assert record is not None, "only whole records are in a stretch"
            at += record.total_bytes
            yield record


class LogScan:
    """One pass over the log. Iterate over `stretches` or `records`; then `end` is where the good part ends. Blocks."""

    def __init__(
        self,
        log: ScannedLog,
        start: int,
        *,
        check_crc: bool,
        trusted_end: int = 0,
        trusted_ms: int = 0,
        stop: int | None = None,
        witness: Witness | None = None,
        ends_with_record: bool = False,
    ) -> None:
        """`start` is where a record begins, or a file; `stop`, if given, is where to end at the latest.

        `ends_with_record`: what is bad behind the last good record is no part of the log.
        """
        self.end = start
        self.bad: list[tuple[int, int]] = []  # stretches of the log that hold no record: from, to
        self._log = log
        self._start = start
        self._stop = stop
        self._check_crc = check_crc
        self._trusted_end = trusted_end
        self._trusted_ms = trusted_ms
        self._witness = witness
        self._ends_with_record = ends_with_record
        self._is_over = False

    @property
    def bad_count(self) -> int:
        return len(self.bad)

    def records(self) -> Iterator[ScannedRecord]:
        """All good records from the start on."""
        for stretch in self.stretches():
            yield from stretch.records()

    def stretches(self, *breaks: int) -> Iterator[Stretch]:
        """The same, many at a time. At each of the `breaks`, which are log offsets, a new stretch begins."""
        file_bytes = self._log.file_bytes
        for file in self._log.files:
            if file.start + file_bytes <= self._start:
                continue
            if self._is_over or (self._stop is not None and file.start >= self._stop):
                return
            if file.start > self.end:  # a file is missing in between
                self.end = file.start
            yield from self._stretches_of(file, max(self._start, file.start) - file.start, breaks)

    def _stretches_of(self, file: LogFile, at: int, breaks: Sequence[int]) -> Iterator[Stretch]:
        """The stretches of one file from position `at` on."""
        file_bytes, start = self._log.file_bytes, file.start
        opened = self._log.open_files.get(file.path)
        nul_from = _EVER if self._witness is None else self._trusted_end
        wanted = PIECE_BYTES
        while True:
            data = opened.pread(min(wanted, file_bytes - at), at)
            wanted = PIECE_BYTES
            here, length, is_last_piece = 0, len(data), at + len(data) >= file_bytes
            while length - here >= BLANK_BYTES:
                position = start + at + here
                if self._stop is not None and position >= self._stop:
                    self._is_over = True
                    return
                end = check_records(
                    data,
                    here,
                    length,
                    log_offset=position,
                    stop=min((limit for limit in (*breaks, self._stop or _EVER) if limit > position), default=_EVER),
                    check_crc=self._check_crc,
                    nul_from=nul_from,
                )
                if end > here:
                    self.end = position + end - here
                    yield Stretch(data, here, end, position)
                    here = end
                    continue
                total, magic = sizes_at(data, here)
                if magic == BLANK_MAGIC and total == file_bytes - at - here:
                    self.end = start + file_bytes
                    return
                if not is_last_piece and length - here < total <= file_bytes - at - here:
                    wanted = max(total, PIECE_BYTES)
                    break  # the record goes on in the next piece
                if self._is_vouched_for(data, here, position):
                    nul_from = position + total
                    continue
                found = self._step_over(file, at + here)
                if found is None:
                    return
                here = found - at
                if here > length:
                    break
            at += here
            if (is_last_piece and file_bytes - at < BLANK_BYTES) or (here == 0 and wanted == PIECE_BYTES):
                self._is_over = True  # nothing can be read here: the file has no end mark
                return

    def _is_vouched_for(self, data: bytes, at: int, position: int) -> bool:
        """Whether this record is bad only in that it holds zeros, and those were sent."""
        if self._witness is None:
            return False
        try:
            record = scan_record(data, at, len(data), check_crc=self._check_crc)
        except ProtocolError:
            return False
        if record is None or record.log_offset != position:
            return False
        return self._witness(position, position + record.total_bytes)

    def _step_over(self, file: LogFile, bad_at: int) -> int | None:
        """Where in the file to go on behind a bad record; None if no more follows in this file, or in the log."""
        begin, file_end = file.start + bad_at, file.start + self._log.file_bytes
        is_trusted = begin < self._trusted_end
        found: tuple[int, int] | None = None
        if is_trusted or self._trusted_ms:
            found = next_record(self._log, file, bad_at + 1, check_crc=self._check_crc)
        if not is_trusted:
            stored_ms = found[1] if found is not None else self._first_time_after(file)
            if not 0 < stored_ms < self._trusted_ms:
                self._is_over = True
                return None
        end = file_end if found is None else file.start + found[0]
        if found is None and is_trusted and not self._first_time_after(file):
            # The newest message is the damaged one, and the log goes on after it; unless there is none.
            end = min(self._trusted_end, file_end)
            is_nothing = self._ends_with_record or self._is_blank(file, bad_at, end - file.start)
            if is_nothing and not self._has_synced_after(file):
                logger.warning("less in the log than was synced", extra={"end": begin, "synced": self._trusted_end})
                self._is_over = True
                return None
            self._is_over = end < file_end
        logger.error("bad record stepped over", extra={"log_offset": begin, "bytes": end - begin})
        self.bad.append((begin, end))
        if found is None:
            self.end = end  # no more in this file; the next one begins anew
            return None
        return found[0]

    def _is_blank(self, file: LogFile, at: int, end: int) -> bool:
        """Whether there is nothing but zeros in this part of the file."""
        opened = self._log.open_files.get(file.path)
        while at < end:
            data = opened.pread(min(PIECE_BYTES, end - at), at)
            if not data:
                return True
            if data.count(0) != len(data):
                return False
            at += len(data)
        return True

    def _has_synced_after(self, file: LogFile) -> bool:
        """Whether a file behind this one, of those that were synced, holds a record."""
        later = [other for other in self._log.files if file.start < other.start < self._trusted_end]
        return any(next_record(self._log, other, 0, check_crc=self._check_crc) is not None for other in later)

    def _first_time_after(self, file: LogFile) -> int:
        """Store time of the first record of the files behind this one; 0 if there is none."""
        for other in self._log.files:
            if other.start > file.start and (stored_ms := first_store_time(self._log, other)):
                return stored_ms
        return 0


def next_record(
    log: ScannedLog,
    file: LogFile,
    at: int,
    *,
    check_crc: bool = True,
    end: int | None = None,
    piece_bytes: int = PIECE_BYTES,
) -> tuple[int, int] | None:
    """Where in the file the first good record begins from `at` on, and its store time; None if there is none.

    It is known by its magic code and by its own log offset, which is where it stands. `end`, if given, is where it has
    to begin before; as much as `piece_bytes` is read at once. Blocks.
    """
    opened = log.open_files.get(file.path)
    first, last = at, log.file_bytes if end is None else min(end + BLANK_BYTES, log.file_bytes)
    while at < last:
        data = opened.pread(min(piece_bytes, last - at), at)
        found = find_magic(data, 0)
        while found >= 0:
            begin = at + found
            if begin >= first and (end is None or begin < end):
                stored_ms = _store_time(log, opened, file, begin, check_crc=check_crc)
                if stored_ms is not None:
                    return begin, stored_ms
            found = find_magic(data, found + 1)
        at += max(len(data) - BLANK_BYTES + 1, 1)
    return None


def first_store_time(log: ScannedLog, file: LogFile) -> int:
    """Store time of a file's first record; 0 if there is none. Blocks."""
    return _store_time(log, log.open_files.get(file.path), file, 0, check_crc=False) or 0


def _store_time(log: ScannedLog, opened: File, file: LogFile, begin: int, *, check_crc: bool) -> int | None:
    """Store time of the record that begins here in the file; None if none does."""
    head = opened.pread(BLANK_BYTES, begin)
    if len(head) < BLANK_BYTES:
        return None
    total, magic = sizes_at(head)
    if magic != MESSAGE_MAGIC or not RECORD_BYTES_MIN <= total <= log.file_bytes - begin:
        return None
    data = opened.pread(total, begin)
    try:
        record = scan_record(data, 0, len(data), check_crc=check_crc)
    except ProtocolError:
        return None
    return record.store_ms if record is not None and record.log_offset == file.start + begin else None
