"""Opening a store: where the log ends, what is believed of queues and index, and what is built again from the log.

The log is the truth. Three situations, by what the last owner left behind:

1. A snapshot (`checkpoint.json`) that counts. Everything below its log offset was synced, so the log is read from there
   on, be it after a clean stop, when nothing follows, or after a crash. Queues are cut back to where they were and go
   on with what is found.
2. No snapshot, clean stop: Apache's broker was here. The last three log files are read for the end, queues and index
   are believed, and records that no queue has yet are dispatched.
3. No snapshot, no clean stop: the log is read from the file that the checkpoint's times lead to, queues are cut back
   to where that file begins, of the index only what was surely synced is kept.

In all three a queue that turns out to lack messages, or an index that lacks files, is built from the log's beginning.
That is noted on the disk before anything is deleted, and until all of it is synced (`rebuild.json`): a start that is
cut off in between leaves queues with holes, which the next one builds again whatever they look like.
All of this runs in one helper thread before anybody else sees the store.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.hot.log_records import QueueRun
from skyrocketmq.ports import Disk
from skyrocketmq.store.checkpoint import CheckpointTimes
from skyrocketmq.store.commit_log import NEVER, CommitLog
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.cut_aside import CutAside
from skyrocketmq.store.dispatch import Dispatcher
from skyrocketmq.store.index import Index
from skyrocketmq.store.log_end import LogEnd
from skyrocketmq.store.log_scan import LogScan, Stretch, first_store_time
from skyrocketmq.store.progress import Progress, told
from skyrocketmq.store.rebuild_note import Rebuilding, RebuildNote
from skyrocketmq.store.snapshot import Snapshot

__all__ = ["Recovered", "Recovery", "RecoveryWishes", "start_by_time"]

logger = logging.getLogger(__name__)

CLEAN_SCAN_FILES: Final = 3


@dataclass(slots=True)
class Recovered:
    """What recovery found and did."""

    end: int = 0  # of the log
    scanned_from: int = 0
    newest_ms: int = 0  # store time of the newest message that was read
    dispatched: int = 0
    bad_records: int = 0
    was_clean: bool = True
    by_times: bool = False  # nothing said how long the queues were: they end with their last messages now
    skipped_queues: int = 0  # that go on after numbers which messages may have had
    cut_bytes: int = 0  # of the log's end, which is kept aside
    cut_records: int = 0  # whole ones among them
    rebuilt_queues: list[str] = field(default_factory=list)
    index_rebuilt: bool = False


@dataclass(frozen=True, slots=True)
class RecoveryWishes:
    """What a repair asks for beyond what recovery does on its own."""

    queues: tuple[tuple[str, int], ...] = ()  # topic and id of queues to build from the log
    rebuilds_index: bool = False
    progress: Progress | None = None  # hears how far the log was read
    trusts_all: bool = False  # keep every good record, also behind a bad one that nobody says was ever synced


def start_by_time(files: Sequence[tuple[int, int]], safe_ms: int) -> int:
    """The file to begin with, of (start, store time of its first record, 0 for none), oldest first.

    The newest whose first message is not newer than `safe_ms`: all before it was synced. If there is none, the first.
    """
    for start, store_ms in reversed(files):
        if 0 < store_ms <= safe_ms:
            return start
    return files[0][0]


class Recovery:
    """One run over a store that was just loaded. Everything here blocks."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        *,
        times: CheckpointTimes,
        snapshot: Snapshot | None,
        is_clean: bool,
        is_index_intact: bool,
        check_crc: bool,
        delay_levels_ms: tuple[int, ...],
        note: RebuildNote,
        log_end: LogEnd,
        aside: CutAside,
        wishes: RecoveryWishes | None = None,
    ) -> None:
        self._disk = disk
        self._log = log
        self._queues = queues
        self._index = index
        self._times = times
        self._snapshot = snapshot
        self._is_clean = is_clean
        self._check_crc = check_crc
        self._delay_levels_ms = delay_levels_ms
        self._note = note
        self._log_end = log_end
        self._aside = aside
        self._cut_off = note.read()  # what an earlier start was building when it ended
        self._wishes = wishes or RecoveryWishes()
        self._trusted_ms = NEVER if self._wishes.trusts_all else 0
        self._lost: set[ConsumeQueue] = set()  # to be built from the beginning
        self._begun: set[ConsumeQueue] = set()  # their first message is known
        self._own_ends: dict[ConsumeQueue, int] = {}  # what the queues' own files say, where there is no snapshot
        self._is_index_lost = index is not None and (
            not is_index_intact or self._wishes.rebuilds_index or self._cut_off.index
        )
        self._report = Recovered()

    def run(self) -> Recovered:
        if not self._log.file_starts:
            self._begin_empty()
            return self._report
        self._distrust_half_built()
        if self._snapshot is not None:
            self._recover_from_snapshot(self._snapshot)
        elif self._is_clean:
            self._recover_foreign_clean_stop()
        else:
            self._recover_by_times()
        self._lost |= {self._queues.get(topic, queue_id) for topic, queue_id in self._wishes.queues}
        self._rebuild_what_is_lost()
        for queue in self._queues:
            if queue not in self._begun:
                queue.correct_min_offset(self._log.min_offset)
        logger.info(
            "store recovered",
            extra={
                "end": self._report.end,
                "scanned_from": self._report.scanned_from,
                "dispatched": self._report.dispatched,
                "was_clean": self._is_clean,
            },
        )
        return self._report

    def _begin_empty(self) -> None:
        """Without a log there is nothing that queues and index could point to.

        They are gone for good before the first new message: the old checkpoint's times would vouch for them.
        """
        queues = list(self._queues)
        for queue in queues:
            for path in queue.clear():
                self._disk.unlink(path)
        self._queues.sync_now(queues)
        if self._index is not None:
            self._index.clear()
            self._index.sync_now()
        if self._cut_off:
            self._note.remove()

    def _distrust_half_built(self) -> None:
        """What an earlier start did not finish building is lost, whatever its files look like."""
        for topic, queue_id, _ in self._cut_off.queues:
            self._lose(topic, queue_id)
        if self._cut_off.everything:
            self._lost |= set(self._queues)

    # ------------------------------------------------------------------------------------- the three situations

    def _recover_from_snapshot(self, snapshot: Snapshot) -> None:
        synced_end = snapshot.log_offset
        on_disk = [queue for queue in self._queues if queue not in self._lost]
        for topic, ends in snapshot.queues.items():
            for queue_id, end in ends.items():
                if end and self._queues.find(topic, int(queue_id)) is None:
                    self._lost.add(self._queues.get(topic, int(queue_id)))
        for queue in on_disk:
            end = snapshot.queue_end(queue.topic, queue.queue_id)
            if end and not self._has_cells_up_to(queue, end, log_offset=synced_end):
                self._lost.add(queue)
            else:
                queue.end_at(end, erase=not self._is_clean)
                if end:  # now, while its file is open: there may be thousands
                    queue.correct_min_offset(self._log.min_offset)
                    self._begun.add(queue)
        index_from = self._mend_index_from_snapshot(snapshot)
        self._scan(synced_end, queues_from=synced_end, index_from=index_from, trusted_end=synced_end)

    def _has_cells_up_to(self, queue: ConsumeQueue, end: int, *, log_offset: int) -> bool:
        """Whether the queue's newest cell at the time of the snapshot is there."""
        cell = queue.read_cell(end - 1)
        return cell is not None and cell[1] > 0 and cell[0] < log_offset

    def _mend_index_from_snapshot(self, snapshot: Snapshot) -> int:
        index = self._index
        if index is None or self._is_index_lost:
            return 0
        if not set(snapshot.index_files) <= set(index.names):
            self._is_index_lost = True
            return 0
        if self._is_clean:
            return snapshot.log_offset
        index.cut(snapshot.log_offset, suspects_from=max(len(snapshot.index_files) - 1, 0))
        return snapshot.log_offset

    def _recover_foreign_clean_stop(self) -> None:
        newest = 0
        for queue in [queue for queue in self._queues if queue not in self._lost]:
            queue.end_at(queue.find_end(), erase=False)
            self._believe_end(queue)
            newest = max(newest, queue.log_end())
        starts = self._log.file_starts
        index_from = self._index.end_offset + 1 if self._index is not None else 0
        queues_from = max(newest, starts[0])
        self._is_index_lost |= self._index is not None and index_from == 0
        self._scan(
            min(starts[-CLEAN_SCAN_FILES:][0], queues_from),
            queues_from=queues_from,
            index_from=index_from,
            trusted_end=max(newest, 0),  # whoever stops in order has synced what its queues know
        )
        if newest > self._report.end:
            for queue in [queue for queue in self._queues if queue not in self._lost]:
                if queue.log_end() > self._report.end:
                    queue.end_at(queue.first_at_or_after(self._report.end), erase=True)

    def _recover_by_times(self) -> None:
        self._report.by_times = True
        heads = [(file.start, first_store_time(self._log, file)) for file in self._log.files]
        queues_from = start_by_time(heads, self._times.safe_ms)
        for queue in [queue for queue in self._queues if queue not in self._lost]:
            queue.end_at(queue.first_at_or_after(queues_from), erase=True)
            self._believe_end(queue)
        index_from = queues_from
        index = self._index
        if index is not None and not self._is_index_lost:
            index_from = max(index.keep_synced(self._times.index_ms), int(self._log.min_offset))
        # What was stored before the checkpoint's time was synced: a bad record in front of it is damage, no torn end.
        self._trusted_ms = max(self._trusted_ms, self._times.log_ms)
        self._scan(min(queues_from, index_from), queues_from=queues_from, index_from=index_from, trusted_end=0)

    # ------------------------------------------------------------------------------------------- reading the log

    def _scan(self, start: int, *, queues_from: int, index_from: int, trusted_end: int) -> None:
        """Read from `start` to the end of the log, dispatch, and cut the log there."""
        trusted_end = max(trusted_end, self._log_end.flushed)
        dispatcher = self._dispatcher(is_complete=queues_from <= self._log.min_offset)
        if self._is_index_lost or self._index is None:
            index_from = NEVER
        scan = LogScan(
            self._log,
            start,
            check_crc=self._check_crc,
            trusted_end=trusted_end,
            trusted_ms=self._trusted_ms,
            witness=self._log_end.is_written,
            ends_with_record=self._log_end.is_copy,
        )
        dispatcher.gapped |= self._lost
        last = self._log.file_starts[-1] + self._log.file_bytes
        for stretch in self._told(scan.stretches(queues_from, index_from), start, last):
            to_queues, to_index = stretch.log_offset >= queues_from, stretch.log_offset >= index_from
            entries = dispatcher.derive(stretch.data, stretch.at, stretch.end)
            dispatcher.dispatch(entries.runs if to_queues else (), entries.keys if to_index else b"")
            self._report.dispatched += entries.record_count if to_queues or to_index else 0
            if not to_queues:
                for run in entries.runs:
                    self._miss(run)
            self._report.newest_ms = entries.last_store_ms
        dispatcher.finish()
        self._lost |= dispatcher.gapped
        report = self._report
        report.end, report.scanned_from = scan.end, start
        report.bad_records = scan.bad_count
        # Only a store that this program closed itself is known to have nothing but zeros behind its end.
        is_known_end = self._is_clean and self._snapshot is not None and scan.end == start
        if not is_known_end:
            report.cut_bytes, report.cut_records = self._aside.keep(self._log, scan.end, check_crc=self._check_crc)
        self._log.cut(scan.end, trusted_end=trusted_end, erase=not is_known_end)
        if self._index is not None and not self._is_index_lost:
            self._index.cut(scan.end)

    def _miss(self, run: QueueRun) -> None:
        """Notice a queue that should have these messages and does not reach as far as the last of them."""
        topic = run.topic.decode("utf-8", "replace")
        log_offset, total, _ = CELL.unpack(run.cells[-CELL_BYTES:])
        queue = self._queues.find(topic, run.queue_id)
        if queue is None or (queue.max_offset < run.end and queue.log_end() < log_offset + total):
            self._lose(topic, run.queue_id)

    def _lose(self, topic: str, queue_id: int) -> None:
        try:
            self._lost.add(self._queues.get(topic, queue_id))
        except IllegalArgument:
            pass  # a name that no queue may have

    def _in_order(self, chosen: set[ConsumeQueue]) -> list[ConsumeQueue]:
        """The same calls of the disk in the same order, whatever the objects' places in memory."""
        return [queue for queue in self._queues if queue in chosen]

    def _rebuild_what_is_lost(self) -> None:
        """Build queues and index that lack something from the beginning of the log, and make them durable."""
        if not self._lost and not self._is_index_lost:
            if self._cut_off:
                self._note.remove()
            return
        names = sorted(f"{queue.topic}-{queue.queue_id}" for queue in self._lost)
        logger.warning(
            "built again from the log", extra={"queues": names, "index": self._is_index_lost, "end": self._report.end}
        )
        self._begun -= self._lost
        ends = {queue: self._known_end(queue) for queue in self._in_order(self._lost)}
        queues = sorted((queue.topic, queue.queue_id, end) for queue, end in ends.items())
        self._note.write(Rebuilding(queues=tuple(queues), index=self._is_index_lost))
        for queue in ends:
            for path in queue.clear():
                self._disk.unlink(path)
        if self._is_index_lost and self._index is not None:
            self._index.clear()
        dispatcher = self._dispatcher(is_complete=True)
        lost = {(queue.topic.encode(), queue.queue_id) for queue in self._lost}
        end = self._report.end
        scan = LogScan(self._log, self._log.min_offset, check_crc=self._check_crc, trusted_end=end, stop=end)
        for stretch in self._told(scan.stretches(), int(self._log.min_offset), end):
            entries = dispatcher.derive(stretch.data, stretch.at, stretch.end)
            runs = [run for run in entries.runs if (run.topic, run.queue_id) in lost]
            dispatcher.dispatch(runs, entries.keys if self._is_index_lost else b"")
        for queue, end in ends.items():
            if queue.max_offset < end:  # its newest messages are gone; groups have come so far all the same
                queue.fill_up_to(end)
                self._queues.mark_dirty(queue)
                self._begun.add(queue)
        dispatcher.finish()
        # Until here the disk may hold any mixture of old and new; what is synced may be believed at the next start.
        self._queues.sync_now(ends.keys())
        if self._is_index_lost and self._index is not None:
            self._index.sync_now()
        self._note.remove()
        self._report.rebuilt_queues = names
        self._report.index_rebuilt = self._is_index_lost
        self._report.bad_records = max(self._report.bad_records, scan.bad_count)

    def _believe_end(self, queue: ConsumeQueue) -> None:
        """Remember which number a queue has come to: if it is built again and its last message is damaged, nobody else
        knows. Not if its last cell points to nowhere in the log: then the number may be nonsense as well."""
        if 0 < queue.log_end() <= self._log.file_starts[-1] + self._log.file_bytes:
            self._own_ends[queue] = int(queue.max_offset)

    def _known_end(self, queue: ConsumeQueue) -> int:
        """The number that a lost queue had come to, as far as anything still says so; 0 if nothing does."""
        key = queue.topic, queue.queue_id
        noted = max((end for *named, end in self._cut_off.queues if tuple(named) == key), default=0)
        vouched = self._snapshot.queue_end(*key) if self._snapshot is not None else 0
        return max(noted, vouched, self._own_ends.get(queue, 0))

    def _told(self, stretches: Iterator[Stretch], begin: int, end: int) -> Iterator[Stretch]:
        """The stretches; a tool that asked for it hears how far they are."""
        progress = self._wishes.progress
        return stretches if progress is None else told(stretches, progress, begin=begin, end=end)

    def _dispatcher(self, *, is_complete: bool) -> Dispatcher:
        return Dispatcher(
            self._disk, self._queues, self._index, delay_levels_ms=self._delay_levels_ms, is_complete=is_complete
        )
