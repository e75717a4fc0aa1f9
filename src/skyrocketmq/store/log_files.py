"""The files of a log as tools see them: to be read only, and to be there before anything is judged by them.

Rule: the log is the truth only where it is. A log that was not mounted, or lies in another directory than the one that
was looked into, makes every queue look wrong; who mended them by it would throw away all that they know. So tools
refuse a store whose queues, index or checkpoint know of messages and whose log has no files, before anything is
written. A broker's start refuses it only where the checkpoint knows of them: before there is one, a power cut may take
the log and leave a queue.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import StoreError
from skyrocketmq.ports import Disk
from skyrocketmq.store.checkpoint import load_checkpoint
from skyrocketmq.store.commit_log import KEY, LogFile
from skyrocketmq.store.consume_queue import CELL
from skyrocketmq.store.cut_mark import CUT_NAME, CutMark
from skyrocketmq.store.file_rows import load_row
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.store.snapshot import load_snapshot

__all__ = ["LogFiles", "require_log", "require_synced_log"]

WHERE_IT_IS = "Give the configuration of its broker with -c, or mount its directory; nothing was changed"


class LogFiles:
    """The files of a log, to be read only."""

    def __init__(self, disk: Disk, config: StoreConfig) -> None:
        row = load_row(
            disk, config.commit_log_directories, file_bytes=config.commit_log_file_bytes, key=KEY, may_be_short=True
        )
        self.file_bytes = config.commit_log_file_bytes
        cut = CutMark(disk, config.root_path / CUT_NAME).load()
        cut_path = None if cut is None else cut.find(disk, config.commit_log_directories)
        short = [file.path for file in row if file.size < self.file_bytes]
        self.short = [path for path in short if path != cut_path]
        self.cut = cut_path if cut_path in short else None  # short for a moment only: the next start finishes that
        self.files = [LogFile(file.start, file.path) for file in row if file.path not in self.short]
        self.open_files = OpenFiles(disk, count_max=8, writable=False)

    @property
    def begin(self) -> int:
        return self.files[0].start if self.files else 0

    @property
    def has_holes(self) -> bool:
        return any(after.start != before.start + self.file_bytes for before, after in pairwise(self.files))


def require_log(disk: Disk, config: StoreConfig, log: LogFiles) -> None:
    """Raise `StoreError` if the log that the store knows is not where it was looked for. Blocks."""
    directories = config.commit_log_directories
    if log.files:
        _require_all_directories(disk, directories, log)
        return
    if not (known := _what_knows_messages(disk, config)):
        return
    places = ", ".join(map(str, directories))
    if log.short:
        raise StoreError(
            f"no log file in {places} has its full size ({KEY} = {log.file_bytes}), but {known} of messages. "
            f"Give the configuration of its broker with -c, or copy the log from a slave; nothing was changed"
        )
    raise StoreError(f"there is no log in {places}, but {known} of messages. {WHERE_IT_IS}")


def _require_all_directories(disk: Disk, directories: tuple[Path, ...], log: LogFiles) -> None:
    """Of a log that is spread over several disks, one that is missing looks like files that were deleted."""
    used = {file.path.parent for file in log.files}
    for directory in directories if len(directories) > 1 else ():
        if not disk.is_directory(directory) or (log.has_holes and directory not in used):
            raise StoreError(f"the part of the log in {directory} is not there. {WHERE_IT_IS}")


def require_synced_log(disk: Disk, config: StoreConfig) -> None:
    """Raise `StoreError` if messages were synced, to a log that has no files now. Blocks."""
    if _checkpoint_knows_messages(disk, config):
        places = ", ".join(map(str, config.commit_log_directories))
        raise StoreError(
            f"there is no log in {places}, but the checkpoint in {config.root_path} knows of messages. Mount the log's "
            f"directory, or give the one it is in (storePathCommitLog). To begin anew without those messages, remove "
            f"checkpoint and checkpoint.json there: the next start deletes what else knows of them, queues and index "
            f"too. Nothing was changed"
        )


def _checkpoint_knows_messages(disk: Disk, config: StoreConfig) -> bool:
    times = load_checkpoint(disk, config.root_path / "checkpoint")
    snapshot = load_snapshot(disk, config.root_path / "checkpoint.json", times)
    return (snapshot is not None and snapshot.log_offset > 0) or times.log_ms > 0


def _what_knows_messages(disk: Disk, config: StoreConfig) -> str:
    root = config.root_path
    if _checkpoint_knows_messages(disk, config):
        return "the checkpoint knows"
    queues = root / "consumequeue"
    for topic in disk.list(queues):
        for queue_id in disk.list(queues / topic):
            directory = queues / topic / queue_id
            if any(_holds_cells(disk, directory / name) for name in disk.list(directory)):
                return f"queue {topic}-{queue_id} knows"
    return "the index knows" if disk.list(root / "index") else ""


def _holds_cells(disk: Disk, path: Path) -> bool:
    data = disk.read(path)
    whole = len(data) - len(data) % CELL.size
    return any(size > 0 for _, size, _ in CELL.iter_unpack(data[:whole]))
