"""How far the log was synced since the last checkpoint: `flushed`, 44 bytes that are written after every sync.

    | the checkpoint's three times 24 | its log offset 8 | synced up to here 8 | CRC 4 |

A bad record behind the checkpoint may be the torn end that a power cut leaves, or damage of what was acknowledged long
ago. Only who knows how far the log was synced can tell: there the messages behind it are kept, else they are cut.

Rule 1: it is written after the sync that makes it true, and itself not synced. Whichever version of it reaches the disk
says something true, at worst something old; so it costs a write into the page cache, and no waiting. After a kill it is
exact, after a power cut as old as the system lets dirty pages become, half a minute as a rule.
Rule 2: it counts only together with the checkpoint it was written after: another broker may have cut the log since.
Rule 3: it names the end of a whole record. The first half of one may be synced and the second not.
"""

from __future__ import annotations

import logging
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from skyrocketmq.ports import Disk, File
from skyrocketmq.store.checkpoint import CheckpointTimes

__all__ = ["FLUSHED_NAME", "FlushMark"]

logger = logging.getLogger(__name__)

_FIELDS: Final = Struct(">qqqqq")
_CRC: Final = Struct(">I")
MARK_BYTES: Final = 44
FLUSHED_NAME: Final = "flushed"
assert _FIELDS.size + _CRC.size == MARK_BYTES


class FlushMark:
    """The file at `path`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._base: tuple[int, int, int, int] | None = None  # the checkpoint it goes with
        self._synced = 0  # by this process

    def read(self, times: CheckpointTimes, log_offset: int) -> int:
        """Up to where the log was synced after this checkpoint, as far as is known; its own offset, if no further.

        `log_offset` is the checkpoint's, 0 where there has been none at all. Blocks.
        """
        if not self._disk.exists(self._path):
            return log_offset
        data = self._disk.read(self._path)
        if len(data) != MARK_BYTES or _CRC.unpack_from(data, _FIELDS.size)[0] != crc32(data[: _FIELDS.size]):
            return log_offset
        *base, synced = _FIELDS.unpack_from(data)
        return max(log_offset, synced) if tuple(base) == _base(times, log_offset) else log_offset

    def open(self) -> None:
        """Make ready for writing; what is there stays until then. Blocks."""
        self._file = self._disk.open(self._path, create=True)

    def follow(self, times: CheckpointTimes, log_offset: int, *, synced: int) -> None:
        """From here on the marks belong to this checkpoint; the log is synced up to `synced`."""
        self._base = _base(times, log_offset)
        self.put(max(synced, self._synced))  # the log may have been synced further while the checkpoint was written

    def put(self, synced: int) -> None:
        """The log is synced up to here, where a record ends. A disk that refuses keeps an older mark, or a void one."""
        self._synced = synced
        if self._file is None or self._base is None:
            return
        fields = _FIELDS.pack(*self._base, synced)
        try:
            self._file.pwrite(fields + _CRC.pack(crc32(fields)), 0)
        except OSError as error:
            logger.debug("mark of the flushed log not written", extra={"error": str(error)})

    def sync(self) -> None:
        """Let no older mark come back: after recovery, which may have ended the log before it. Blocks."""
        assert self._file is not None, "open comes first"
        self._file.fdatasync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """A store that was closed in order needs none: its checkpoint covers the log. Blocks."""
        self.close()
        self._disk.unlink(self._path)


def _base(times: CheckpointTimes, log_offset: int) -> tuple[int, int, int, int]:
    return times.log_ms, times.queues_ms, times.index_ms, log_offset
