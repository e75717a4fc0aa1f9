"""Making the next log file quick before it is used, where the operator asks for it (`warmMapedFileEnable`).

Its pages are brought into memory, and locked there as far as the system allows: the first writes into a file then wait
neither for memory nor for another program that wants it. The lock goes when the log has moved on.

Rule: only reading. The log may begin to use the file while it is still being warmed up, and nothing written here could
be told from a message that came meanwhile. Apache's broker writes zeros instead, because nobody has its file yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from skyrocketmq.ports import Disk

__all__ = ["PinnedFiles", "warm_up"]

logger = logging.getLogger(__name__)

PAGE_BYTES: Final = 4096
Unpin = Callable[[], None]


def warm_up(disk: Disk, path: Path, file_bytes: int, *, step_pages: int) -> Unpin | None:
    """Read the file into memory and lock it there; returns what ends the lock, None where there is none. Blocks."""
    step_bytes = step_pages * PAGE_BYTES
    file = disk.open(path, writable=False)
    try:
        for at in range(0, file_bytes, step_bytes):
            file.pread(min(step_bytes, file_bytes - at), at)
        try:
            return file.pin(file_bytes)
        except OSError as error:
            logger.warning("file not locked in memory", extra={"path": str(path), "error": str(error)})
            return None
    finally:
        file.close()


class PinnedFiles:
    """The files that are locked in memory: the one that is written to, and the next."""

    def __init__(self) -> None:
        self._unpins: dict[Path, Unpin] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._unpins

    def add(self, path: Path, unpin: Unpin | None) -> None:
        if unpin is not None:
            self._unpins[path] = unpin

    def keep_only(self, paths: set[Path]) -> None:
        """Let go of all others."""
        for path in self._unpins.keys() - paths:
            self._unpins.pop(path)()
