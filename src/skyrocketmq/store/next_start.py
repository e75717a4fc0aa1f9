"""What the next start of a broker will do with the store that a tool looks at.

Rule: the same values that lead `recovery`, read without changing anything. A record that is damaged below what a
checkpoint vouches for is stepped over; above it, it is taken for the torn end of the log, and all behind it goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import Disk
from skyrocketmq.store.checkpoint import load_checkpoint
from skyrocketmq.store.commit_log import NEVER
from skyrocketmq.store.log_end import LogEnd
from skyrocketmq.store.log_files import LogFiles
from skyrocketmq.store.log_scan import LogScan, first_store_time
from skyrocketmq.store.rebuild_note import RebuildNote
from skyrocketmq.store.recovery import CLEAN_SCAN_FILES, start_by_time
from skyrocketmq.store.snapshot import load_snapshot

__all__ = ["NextStart", "cut_by_next_start", "foresee"]


@dataclass(frozen=True, slots=True)
class NextStart:
    """Where it begins to read, what it adds, and what it trusts."""

    reads_from: int = 0
    queues_from: int = 0  # messages from here on are put into queues that lack them
    index_from: int = 0
    trusted_end: int = 0
    trusted_ms: int = 0
    rebuilt_queues: frozenset[tuple[str, int]] = frozenset()  # an earlier start was cut off while it built them
    rebuilds_index: bool = False
    rebuilds_all: bool = False

    def rebuilds(self, topic: str, queue_id: int) -> bool:
        return self.rebuilds_all or (topic, queue_id) in self.rebuilt_queues


def foresee(
    disk: Disk, config: StoreConfig, log: LogFiles, log_end: LogEnd, *, was_clean: bool, queues_end: int
) -> NextStart:
    """`queues_end` is where the newest message ends that any queue knows. Blocks."""
    root = config.root_path
    note = RebuildNote(disk, root / "rebuild.json").read()
    rebuilt = frozenset((topic, queue_id) for topic, queue_id, _ in note.queues)
    starts = [file.start for file in log.files]
    if not starts:
        return NextStart(rebuilt_queues=rebuilt, rebuilds_index=note.index, rebuilds_all=note.everything)
    times = load_checkpoint(disk, root / "checkpoint")
    snapshot = load_snapshot(disk, root / "checkpoint.json", times, is_own=log_end.owner is not None)
    trusted_end = trusted_ms = index_from = 0
    if snapshot is not None and snapshot.is_within(starts, log.file_bytes):
        reads_from = queues_from = index_from = trusted_end = snapshot.log_offset
    elif was_clean:
        queues_from = max(queues_end, starts[0])
        reads_from, trusted_end = min(starts[-CLEAN_SCAN_FILES:][0], queues_from), queues_end
    else:
        heads = [(file.start, first_store_time(log, file)) for file in log.files]
        reads_from = queues_from = start_by_time(heads, times.safe_ms)
        trusted_ms = times.log_ms
    trusted_end = max(trusted_end, log_end.flushed)
    return NextStart(reads_from, queues_from, index_from, trusted_end, trusted_ms, rebuilt, note.index, note.everything)


def cut_by_next_start(
    config: StoreConfig, log: LogFiles, log_end: LogEnd, start: NextStart, bad: list[tuple[int, int]]
) -> tuple[int, int]:
    """Where the next start ends the log, and how many good messages behind that it cuts off. Blocks.

    `bad` are the stretches without a good record: only these can mislead it.
    """
    if all(begin < max(start.trusted_end, start.reads_from) for begin, _ in bad):
        return 0, 0
    scan = LogScan(
        log,
        start.reads_from,
        check_crc=config.check_crc_on_recover,
        trusted_end=start.trusted_end,
        trusted_ms=start.trusted_ms,
        witness=log_end.is_written,
    )
    for _ in scan.records():
        pass
    behind = LogScan(log, scan.end, check_crc=True, trusted_ms=NEVER)
    return scan.end, sum(1 for _ in behind.records())
