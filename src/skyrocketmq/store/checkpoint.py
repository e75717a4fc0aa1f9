"""The checkpoint file: up to which store time log, queues and index are known to be on disk.

    | newest message flushed in the log 8 | in the queues 8 | in the index 8 |      times in ms; the file has 4096 bytes

Recovery after a crash begins at the last log file whose first message is older than the first two, less three seconds
to be on the safe side. Rule: a time is put here only after the sync that makes it true has returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from skyrocketmq.ports import Disk
from skyrocketmq.store.file_rows import translated

__all__ = ["CheckpointTimes", "load_checkpoint", "save_checkpoint"]

FILE_BYTES: Final = 4096
MARGIN_MS: Final = 3000
_TIMES: Final = Struct(">qqq")
assert _TIMES.size == 24


@dataclass(frozen=True, slots=True)
class CheckpointTimes:
    """Store times in ms; 0 where nothing is known."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0

    @property
    def safe_ms(self) -> int:
        """Log and queues hold every message stored before this time."""
        return max(0, min(self.log_ms, self.queues_ms) - MARGIN_MS)

    @property
    def index_safe_ms(self) -> int:
        """And so does the index."""
        return min(self.safe_ms, self.index_ms)


def load_checkpoint(disk: Disk, path: Path) -> CheckpointTimes:
    """The times, all 0 where there is no file or a broken one: recovery then reads the whole log. Blocks."""
    if not disk.exists(path):
        return CheckpointTimes()
    data = disk.read(path)
    if len(data) < _TIMES.size:
        return CheckpointTimes()
    return CheckpointTimes(*_TIMES.unpack_from(data))


def save_checkpoint(disk: Disk, path: Path, times: CheckpointTimes) -> None:
    """Write the times and make them durable: 24 bytes of one sector, which a power cut does not tear. Blocks.

    Raises `DiskFull` if there is no room for them, which leaves the old ones; `OSError` for the rest.
    """
    file = disk.open(path, create=True)
    try:
        try:
            if file.size() != FILE_BYTES:
                file.allocate(FILE_BYTES)
            file.pwrite(_TIMES.pack(times.log_ms, times.queues_ms, times.index_ms), 0)
        except OSError as error:
            raise translated(error, path) from error
        file.fdatasync()
    finally:
        file.close()
