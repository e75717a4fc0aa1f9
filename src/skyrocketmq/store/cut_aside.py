"""What a start cuts off the log's end, kept beside it for somebody to look at.

Rule 1: nothing is wiped before it was counted, copied to `commitlog.cut`, and reported.
Rule 2: the copies take `KEPT_BYTES_MAX` at most: the oldest go first, and of a longer end its first part is kept.
Rule 3: a disk that has no room for the copy does not keep the store from opening: that is said, and the end is cut.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from skyrocketmq.ports import Disk
from skyrocketmq.store.file_rows import make_directories
from skyrocketmq.store.log_scan import LogScan, ScannedLog

__all__ = ["CUT_ASIDE_NAME", "CutAside"]

logger = logging.getLogger(__name__)

CUT_ASIDE_NAME: Final = "commitlog.cut"
KEPT_BYTES_MAX: Final = 256 << 20
PIECE_BYTES: Final = 4 << 20
_NEVER: Final = 1 << 63
ADVICE: Final = (
    "After a power cut an unfinished end is ordinary, and nothing that was flushed is in it. Whole messages in it may "
    "mean a damaged disk: look at them with the store's tools, or copy them from a slave."
)


class CutAside:
    """The directory with the copies. All calls block."""

    def __init__(self, disk: Disk, directory: Path, *, now_ms: int) -> None:
        self._disk = disk
        self._directory = directory
        self._now_ms = now_ms

    def keep(self, log: ScannedLog, end: int, *, check_crc: bool) -> tuple[int, int]:
        """Copy what follows `end` in the log, which is about to be cut there; its bytes and whole records, counted."""
        last = _written_end(log, end)
        if last <= end:
            return 0, 0
        scan = LogScan(log, end, check_crc=check_crc, trusted_ms=_NEVER, stop=last)
        records = sum(1 for _ in scan.records())
        kept = min(last - end, KEPT_BYTES_MAX)
        path: Path | None = self._directory / f"{end:020d}-{self._now_ms}"
        try:
            make_directories(self._disk, self._directory)
            self._make_room(kept)
            assert path is not None
            self._copy(log, end, end + kept, path)
        except OSError as error:
            logger.error("end of the log could not be kept", extra={"path": str(path), "error": str(error)})
            path = None
        extra = {"end": end, "bytes": last - end, "whole_records": records, "kept_in": str(path), "advice": ADVICE}
        logger.warning("end of the log cut off", extra=extra)
        return last - end, records

    def _make_room(self, wanted_bytes: int) -> None:
        """Delete the oldest copies until there is room for another."""
        sizes = {name: self._size(name) for name in self._disk.list(self._directory)}
        for name in sorted(sizes, key=_time_of):
            if sum(sizes.values()) + wanted_bytes <= KEPT_BYTES_MAX:
                return
            self._disk.unlink(self._directory / name)
            del sizes[name]

    def _size(self, name: str) -> int:
        file = self._disk.open(self._directory / name, writable=False)
        try:
            return file.size()
        finally:
            file.close()

    def _copy(self, log: ScannedLog, begin: int, end: int, path: Path) -> None:
        file = self._disk.open(path, create=True)
        try:
            for source in log.files:
                at, last = max(begin, source.start), min(end, source.start + log.file_bytes)
                while at < last:
                    data = log.open_files.get(source.path).pread(min(PIECE_BYTES, last - at), at - source.start)
                    if not data:
                        break
                    file.pwrite(data, at - begin)
                    at += len(data)
            file.fdatasync()
        finally:
            file.close()
        self._disk.sync_directory(self._directory)


def _time_of(name: str) -> tuple[int, str]:
    _, _, time = name.partition("-")
    return (int(time) if time.isdigit() else 0, name)


def _written_end(log: ScannedLog, begin: int) -> int:
    """Where the last byte ends, from `begin` on, that is not zero; `begin` if there is none."""
    found = begin
    for file in log.files:
        at = max(begin - file.start, 0)
        while at < log.file_bytes:
            data = log.open_files.get(file.path).pread(min(PIECE_BYTES, log.file_bytes - at), at)
            if not data:
                break
            if written := len(data.rstrip(b"\0")):
                found = file.start + at + written
            at += len(data)
    return found
