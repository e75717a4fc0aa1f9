"""checkpoint.json: the offsets that belong to the times in `checkpoint`.

The times are what Apache's brokers understand; they lead recovery to the beginning of a log file. This file, which
Apache's brokers do not look at, says exactly which byte of the log was synced, how long each queue was and which index
files there were. With it a start reads only what was written since, and notices a queue or index file that is gone.

Rule 1: where the mark in the lock file proves that nobody else was here since, it counts whatever the times say. It is
replaced whole, after all that it speaks of was synced. The times are another file: a crash between the two leaves a
pair that does not match, and so does a power cut that takes back times which a start has already read.
Rule 2: without that proof it counts only together with the very times it was written with. Another broker that worked
on the directory in between has changed those.
Rule 3: one that does not count is deleted before recovery changes what it speaks of. The next start, which finds this
program's mark, would believe it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from skyrocketmq.ports import Disk
from skyrocketmq.store.checkpoint import CheckpointTimes

__all__ = ["Snapshot", "load_snapshot", "save_snapshot"]

logger = logging.getLogger(__name__)


class Snapshot(msgspec.Struct, frozen=True, rename="camel"):
    """Everything below `log_offset` was synced: the log itself, the cells of its messages, their index entries."""

    log_ms: int
    queues_ms: int
    index_ms: int
    log_offset: int
    queues: dict[str, dict[str, int]]  # topic -> queue id -> its max offset then
    index_files: tuple[str, ...]  # their names, oldest first

    def belongs_to(self, times: CheckpointTimes) -> bool:
        return (self.log_ms, self.queues_ms, self.index_ms) == (times.log_ms, times.queues_ms, times.index_ms)

    def is_within(self, file_starts: Sequence[int], file_bytes: int) -> bool:
        """Whether a log of these files reaches to the offset, and has what follows it."""
        return bool(file_starts) and file_starts[0] <= self.log_offset <= file_starts[-1] + file_bytes

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The queue's max offset at the time; 0 for one that did not exist."""
        return self.queues.get(topic, {}).get(str(queue_id), 0)


def load_snapshot(disk: Disk, path: Path, times: CheckpointTimes, *, is_own: bool = False) -> Snapshot | None:
    """The snapshot, if there is one that belongs to these times, or that `is_own` work for certain. Blocks."""
    if not disk.exists(path):
        return None
    try:
        snapshot = msgspec.json.decode(disk.read(path), type=Snapshot)
    except msgspec.DecodeError as error:
        logger.warning("checkpoint.json is not readable, ignored", extra={"path": str(path), "error": str(error)})
        return None
    return snapshot if is_own or snapshot.belongs_to(times) else None


def save_snapshot(disk: Disk, path: Path, snapshot: Snapshot) -> None:
    """Replace the file whole. A crash before it leaves the one before, which still counts. Blocks."""
    disk.replace(path, msgspec.json.encode(snapshot))
