"""How far the log was synced, noted after each sync for the next start.

    | flushed log offset 8 | id of the owner 16 | crc32 of the bytes before 4 |

Rule 1: it is not synced after each of them, so after a power cut it may say too little, never too much.
Rule 2: it is synced with each checkpoint, before the vouchers are dropped that the checkpoint covers. So where
checkpoint.json is lost, something still says that these records are whole. See `owner` for the id.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final
from zlib import crc32

from skyrocketmq.ports import Disk, File

__all__ = ["FLUSHED_NAME", "FlushedNote", "read_flushed"]

FLUSHED_NAME: Final = "flushed"
_NOTE: Final = Struct(">q16sI")
NOTE_BYTES: Final = 28
assert _NOTE.size == NOTE_BYTES


def read_flushed(disk: Disk, path: Path, owner_id: str) -> int:
    """What this owner has noted; 0 if nothing readable. Blocks."""
    data = disk.read(path) if disk.exists(path) else b""
    if len(data) != NOTE_BYTES or crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
        return 0
    offset, noted_by, _ = _NOTE.unpack(data)
    return int(offset) if noted_by == owner_id.encode() else 0


class FlushedNote:
    """How far the log was synced, for the next start. `write` and `sync` are called in helper threads."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._owner = b""
        self._offset = 0  # what was noted in this life
        self._turn = Lock()  # guards the file and the offset: a sync of the log and a checkpoint may end at once

    def begin(self, owner_id: str) -> None:
        self._owner = owner_id.encode()
        assert len(self._owner) == 16, "an id is eight bytes in hexadecimal digits"

    def write(self, offset: int) -> None:
        """Note that the log is synced up to here, if nothing higher is noted. That is not durable."""
        self._write(offset)

    def sync(self, offset: int) -> None:
        """The same, durably, once the name of the file is. Blocks."""
        self._write(offset).fdatasync()

    def _write(self, offset: int) -> File:
        with self._turn:
            if self._file is None:
                self._file = self._disk.open(self._path, create=True)
            self._offset = max(self._offset, offset)
            word = _NOTE.pack(self._offset, self._owner, 0)[:-4]
            self._file.pwrite(word + crc32(word).to_bytes(4, "big"), 0)  # again, if a sync of it has failed
            return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
