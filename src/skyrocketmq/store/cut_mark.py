"""A note that a log file is being cut: for the few moments in which it is shorter than its setting says.

Cutting a file off and reserving it again is the quick way to have zeros behind its end. A crash in between leaves a
short file, which the store would otherwise refuse. The plan is saved, then carried out, then forgotten; every step may
run twice.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from skyrocketmq.ports import Disk, File

__all__ = ["CutMark"]

logger = logging.getLogger(__name__)


class _Plan(msgspec.Struct, frozen=True):
    path: str
    kept_bytes: int


class CutMark:
    """The note at `path`. All calls block."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def cut(self, file: File, kept_bytes: int, *, file_bytes: int) -> None:
        """Make zeros of everything in the file behind its first `kept_bytes`."""
        self._disk.replace(self._path, msgspec.json.encode(_Plan(str(file.path), kept_bytes)))
        file.truncate(kept_bytes)
        _extend(file, file_bytes)
        self._disk.unlink(self._path)

    def finish(self, *, file_bytes: int) -> None:
        """Carry out what a crash has interrupted."""
        if not self._disk.exists(self._path):
            return
        try:
            plan = msgspec.json.decode(self._disk.read(self._path), type=_Plan)
        except msgspec.DecodeError:
            plan = None
        if plan is not None and self._disk.exists(Path(plan.path)):
            file = self._disk.open(Path(plan.path))
            try:
                if plan.kept_bytes <= file.size() < file_bytes:
                    logger.info("cut of a log file finished", extra={"path": plan.path, "kept": plan.kept_bytes})
                    _extend(file, file_bytes)
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
