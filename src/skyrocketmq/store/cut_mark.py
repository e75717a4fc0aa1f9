"""A note that a log file is being cut: for the few moments in which it is shorter than its setting says.

Cutting a file off and reserving it again is the quick way to have zeros behind its end. A crash in between leaves a
short file, which the store would otherwise refuse. The plan is saved, then carried out, then forgotten; every step may
run twice. The note says how large the file was: its own length says nothing any more.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from skyrocketmq.ports import Disk, File

__all__ = ["CUT_NAME", "Cut", "CutMark"]

logger = logging.getLogger(__name__)

CUT_NAME = "cut.json"


class Cut(msgspec.Struct, frozen=True):
    """What is being done to which file."""

    path: str
    kept_bytes: int
    file_bytes: int = 0  # how large it will be again; 0 in notes of the first versions, which did not say

    def find(self, disk: Disk, directories: Sequence[Path]) -> Path | None:
        """The file in the log's directories, wherever the store was moved to meanwhile; None if it is gone."""
        noted = Path(self.path)
        places = [noted] if noted.parent in directories else []
        places += [directory / noted.name for directory in directories]
        return next((path for path in places if disk.exists(path)), None)


class CutMark:
    """The note at `path`. All calls block."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def cut(self, file: File, kept_bytes: int, *, file_bytes: int) -> None:
        """Make zeros of everything in the file behind its first `kept_bytes`."""
        self._disk.replace(self._path, msgspec.json.encode(Cut(str(file.path), kept_bytes, file_bytes)))
        file.truncate(kept_bytes)
        _extend(file, file_bytes)
        self._disk.unlink(self._path)

    def load(self) -> Cut | None:
        """The cut that a crash has interrupted."""
        if not self._disk.exists(self._path):
            return None
        try:
            return msgspec.json.decode(self._disk.read(self._path), type=Cut)
        except msgspec.DecodeError as error:
            logger.warning("note of a cut not readable", extra={"path": str(self._path), "error": str(error)})
            return None

    def finish(self, directories: Sequence[Path], *, file_bytes: int) -> None:
        """Carry out what a crash has interrupted. The note stays until its file has its full size, or is gone."""
        if (cut := self.load()) is None or cut.file_bytes not in (0, file_bytes):
            return  # with another size than the store was written with, its files are refused anyway
        if (path := cut.find(self._disk, directories)) is not None:
            file = self._disk.open(path)
            try:
                if cut.kept_bytes <= file.size() < file_bytes:
                    logger.info("cut of a log file finished", extra={"path": str(path), "kept": cut.kept_bytes})
                    _extend(file, file_bytes)
                if file.size() != file_bytes:
                    return
            finally:
                file.close()
        self._disk.unlink(self._path)


def _extend(file: File, file_bytes: int) -> None:
    """Give a file its full size, reserved if there is space for that."""
    try:
        file.allocate(file_bytes)
    except OSError as error:
        logger.warning("log file not reserved, appends may fail", extra={"path": str(file.path), "error": str(error)})
        file.truncate(file_bytes)
    file.fdatasync()
