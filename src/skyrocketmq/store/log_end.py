"""What is known of the log's end above the last checkpoint when a store is opened.

Rule 1: everything here was noted by this program on this very store. If another one was here since, nothing is known:
the end is judged as Apache's brokers judge it, by lengths and checksums of bodies.
Rule 2: zeros in a record's properties are believed where a voucher says so, and where the record was written by
somebody else. Where this program wrote and no voucher matches, they are the mark of a torn write.
Rule 3: a bad record below what was noted as flushed is damage, and what follows it is kept.
Rule 4: a slave's log ends with a good record: what is bad behind the last one its master sends again.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from skyrocketmq.ports import Disk
from skyrocketmq.store.flushed_note import FLUSHED_NAME, read_flushed
from skyrocketmq.store.log_scan import ScannedLog
from skyrocketmq.store.owner import Owner
from skyrocketmq.store.vouchers import VOUCHERS_NAME, Ranges, matching_ranges, read_vouchers

__all__ = ["LogEnd"]


class LogEnd:
    """The notes of the store's last owner. Blocks."""

    def __init__(self, disk: Disk, root: Path, log: ScannedLog, owner: Owner | None, *, is_copy: bool = False) -> None:
        self._disk = disk
        self._root = root
        self._log = log
        self.owner = owner
        self.is_copy = is_copy
        self.flushed = 0 if owner is None else read_flushed(disk, root / FLUSHED_NAME, owner.id)

    def is_written(self, begin: int, end: int) -> bool:
        """Whether a record with zeros in its properties stands here as it was meant to be."""
        return self.owner is None or begin < self.owner.own_from or self._vouched.cover(begin, end)

    @cached_property
    def _vouched(self) -> Ranges:
        """Asked for only where there is such a record: it reads all that was vouched for."""
        return matching_ranges(read_vouchers(self._disk, self._root / VOUCHERS_NAME), self._read)

    def _read(self, begin: int, end: int) -> bytes:
        parts = []
        for file in self._log.files:
            at, last = max(begin, file.start), min(end, file.start + self._log.file_bytes)
            if at < last:
                parts.append(self._log.open_files.get(file.path).pread(last - at, at - file.start))
        return b"".join(parts)
