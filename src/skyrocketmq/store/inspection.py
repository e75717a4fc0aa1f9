"""Looking through a whole store that no broker uses: what is intact, what is lost, and why.

One pass over the log checks everything against it, record by record: each queue's cell, each entry of the index.

Rule 1: nothing is written. Rule 2: damage is what readers would notice; what the next start mends on its own, such as
the torn end that a crash leaves, is only noted. Rule 3: a finding says where, what, and whether `repair` helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import MQError, StoreError
from skyrocketmq.ports import Disk
from skyrocketmq.store.checkpoint import CheckpointTimes, load_checkpoint
from skyrocketmq.store.commit_log import NEVER
from skyrocketmq.store.cut_aside import CUT_ASIDE_NAME
from skyrocketmq.store.inspection_index import IndexCheck
from skyrocketmq.store.inspection_queues import QueueCheck, QueueChecks
from skyrocketmq.store.inspection_records import RecordPlaces
from skyrocketmq.store.log_end import LogEnd
from skyrocketmq.store.log_files import LogFiles, require_log
from skyrocketmq.store.log_scan import LogScan
from skyrocketmq.store.next_start import NextStart, cut_by_next_start, foresee
from skyrocketmq.store.owner import find_owner
from skyrocketmq.store.progress import Progress, told
from skyrocketmq.store.snapshot import load_snapshot
from skyrocketmq.wire.json_dialect import parse
from skyrocketmq.wire.records import ScannedRecord

__all__ = ["Finding", "StoreReport", "inspect", "known_topics"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    part: str  # log, queue, index, checkpoint, config
    where: str
    what: str
    is_damage: bool = True
    can_repair: bool = False


@dataclass(slots=True)
class StoreReport:
    """What was found."""

    root: Path
    was_clean: bool = True  # its last owner stopped in order
    log_begin: int = 0
    log_end: int = 0
    log_files: int = 0
    log_file_bytes: int = 0  # the size of each
    records: int = 0
    lost_records: int = 0  # places in queues whose message is not in the log
    queues: int = 0
    cells: int = 0
    index_files: int = 0
    index_entries: int = 0
    findings: list[Finding] = field(default_factory=list)
    broken_queues: list[tuple[str, int]] = field(default_factory=list)
    is_index_broken: bool = False
    is_cut_by_next_start: bool = False  # good messages behind a damaged one would be lost
    broken_configs: list[str] = field(default_factory=list)  # those whose .bak is good

    @property
    def is_intact(self) -> bool:
        return not any(finding.is_damage for finding in self.findings)

    def add(self, part: str, where: str, what: str, *, is_damage: bool = True, can_repair: bool = False) -> None:
        self.findings.append(Finding(part, where, what, is_damage, can_repair))


def inspect(
    disk: Disk, config: StoreConfig, *, mark: bytes = b"", progress: Progress = lambda done, total: None
) -> StoreReport:
    """Check the whole store; `mark` is what its lock file says, which only the lock's holder may read.

    Blocks, for minutes where the log is large. Raises `StoreError` for what is no store.
    """
    return _Inspection(disk, config, mark, progress).run()


class _Inspection:
    def __init__(self, disk: Disk, config: StoreConfig, mark: bytes, progress: Progress) -> None:
        self._disk = disk
        self._mark = mark
        self._config = config
        self._progress = progress
        self._root = config.root_path
        self._report = StoreReport(config.root_path)
        self._bad: list[tuple[int, int]] = []
        self._places = RecordPlaces(config)
        self._has_holes = False  # files of the log are missing

    def run(self) -> StoreReport:
        report, disk = self._report, self._disk
        if not disk.is_directory(self._root):
            raise StoreError(f"{self._root} is no directory: give the one that storePathRootDir names")
        report.was_clean = not disk.exists(self._root / "abort")
        log = LogFiles(disk, self._config)
        if not log.files and not disk.exists(self._root / "consumequeue"):
            raise StoreError(f"{self._root} holds no store: there is neither a commit log nor a consume queue")
        require_log(disk, self._config, log)
        self._has_holes = log.has_holes
        self._queues = QueueChecks(disk, self._root / "consumequeue", self._config.queue_file_bytes)
        self._index = IndexCheck(disk, self._root / "index", self._config)
        owner = None if report.was_clean else find_owner(disk, self._root, self._mark)
        log_end = LogEnd(disk, self._root, log, owner)
        try:
            self._scan(log)
            self._look_behind_end(log)
            self._look_aside()
            queues = list(self._queues.finish(report.log_begin, self._bad))
            queues_end = self._queues.log_end
            next_start = foresee(disk, self._config, log, log_end, was_clean=report.was_clean, queues_end=queues_end)
            self._judge_bad_records(log, log_end, next_start)
        finally:
            log.open_files.close()
        self._judge_queues(queues, next_start)
        self._judge_index(next_start)
        self._check_checkpoint(is_own=owner is not None)
        self._check_configs()
        return report

    # --------------------------------------------------------------------------------------------------------- log

    def _scan(self, log: LogFiles) -> None:
        report = self._report
        report.log_begin, report.log_files, report.log_file_bytes = log.begin, len(log.files), log.file_bytes
        for path in log.short:
            report.add("log", path.name, "shorter than the others: it was just being made", is_damage=False)
        if log.cut is not None:
            text = "a crash interrupted a start that cut its end off: the next start finishes that"
            report.add("log", log.cut.name, text, is_damage=False)
        last = log.files[-1].start + log.file_bytes if log.files else 0
        scan = LogScan(log, log.begin, check_crc=True, trusted_ms=NEVER)
        self._index.begin(log.begin, scan.bad)
        for stretch in told(scan.stretches(), self._progress, begin=log.begin, end=last):
            for record in stretch.records():
                report.records += 1
                self._check_record(record)
        for topic, why in self._places.illegal.items():
            report.add("log", topic, f"an illegal topic, its messages are in no queue: {why}")
        report.log_end, self._bad = scan.end, scan.bad
        for begin, end in scan.bad:
            report.add("log", f"{begin}", f"{end - begin} bytes hold no good record: what was there is lost")
        expected = log.begin
        for file in log.files:
            if file.start > expected:
                report.add("log", f"{expected}", f"{file.start - expected} bytes are missing: files were deleted")
            expected = file.start + log.file_bytes

    def _check_record(self, record: ScannedRecord) -> None:
        places = self._places.of(record)
        if places is None:
            return
        if places.cell is not None:
            self._queues.check(places.topic, record.queue_id, record.queue_offset, places.cell)
        for key_hash in places.key_hashes:
            self._index.check(key_hash, record.log_offset)

    def _look_behind_end(self, log: LogFiles) -> None:
        """After a crash the end may be torn, and the next start cuts it: nothing that was acknowledged as durable."""
        end = self._report.log_end
        for file in log.files:
            at = max(end - file.start, 0)
            if at >= log.file_bytes:
                continue
            opened = log.open_files.get(file.path)
            while at < log.file_bytes:
                data = opened.pread(min(1 << 22, log.file_bytes - at), at)
                if not data:  # a file that is being cut has no more
                    break
                if data.count(0) != len(data):
                    text = "bytes behind the last record are no record: the next start cuts them off"
                    self._report.add("log", f"{end}", text, is_damage=False)
                    return
                at += len(data)

    def _look_aside(self) -> None:
        """What earlier starts have cut off: somebody may have missed the warning in the broker's log."""
        for name in self._disk.list(self._root / CUT_ASIDE_NAME):
            text = "was cut off the end of the log by an earlier start, and is kept; delete it if nobody needs it"
            self._report.add("log", f"{CUT_ASIDE_NAME}/{name}", text, is_damage=False)

    def _judge_bad_records(self, log: LogFiles, log_end: LogEnd, next_start: NextStart) -> None:
        """Damage above the last checkpoint looks like a torn end to a start, which throws away all behind it."""
        end, count = cut_by_next_start(self._config, log, log_end, next_start, self._bad)
        if count:
            self._report.is_cut_by_next_start = True
            text = f"the next start takes this for the torn end, and cuts off {count} good messages behind it"
            self._report.add("log", f"{end}", text, can_repair=True)

    # ------------------------------------------------------------------------------------------- queues and index

    def _judge_queues(self, queues: Sequence[QueueCheck], next_start: NextStart) -> None:
        report = self._report
        known = known_topics(self._disk, self._root)
        for queue in queues:
            report.queues += 1
            report.cells += queue.cells
            name = f"{queue.topic}-{queue.queue_id}"
            ranges = ", ".join(f"{first}..{last}" for first, last in queue.lost_ranges[:5])
            if queue.lost and not self._bad and not self._has_holes:
                text = f"{queue.lost} numbers were skipped when messages were lost, nobody has them: offsets {ranges}"
                report.add("queue", name, text, is_damage=False)
            elif queue.lost:
                report.lost_records += queue.lost
                report.add("queue", name, f"{queue.lost} messages are not in the log: offsets {ranges}")
            is_at_end = queue.wrong == queue.missing_at_end and not queue.strays
            is_late = not report.was_clean and is_at_end and queue.missing_from >= next_start.queues_from
            if next_start.rebuilds(queue.topic, queue.queue_id):
                text = "was just being built again from the log: the next start does that anew"
                report.add("queue", name, text, is_damage=False)
            elif queue.is_absent and queue.topic not in known:
                report.add("queue", name, "is not there: its topic was deleted", is_damage=False)
            elif is_late and queue.wrong:
                text = f"{queue.wrong} messages are not in it yet: the next start adds them"
                report.add("queue", name, text, is_damage=False)
            elif queue.wrong or queue.strays or queue.trouble:
                parts = [f"{queue.wrong} messages of the log are not where they belong"] if queue.wrong else []
                parts += [f"{queue.strays} places lead to no message"] if queue.strays else []
                parts += [queue.trouble] if queue.trouble else []
                report.add("queue", name, "; ".join(parts), can_repair=True)
                report.broken_queues.append((queue.topic, queue.queue_id))

    def _judge_index(self, next_start: NextStart) -> None:
        report, index = self._report, self._index
        if not self._config.index_enable:
            return
        trouble = index.finish(report.log_end)
        report.index_files, report.index_entries = index.file_count, index.entry_count
        is_late = index.is_merely_late and not report.was_clean and index.missing_from >= next_start.index_from
        if next_start.rebuilds_index:
            text = "was just being built again from the log: the next start does that anew"
            report.add("index", "", text, is_damage=False)
        elif trouble and is_late:
            report.add("index", "", f"{trouble}: the next start adds them", is_damage=False)
        elif trouble:
            report.is_index_broken = True
            report.add("index", index.where, trouble, can_repair=True)

    # ------------------------------------------------------------------------------------------- the small files

    def _times(self) -> CheckpointTimes:
        return load_checkpoint(self._disk, self._root / "checkpoint")

    def _check_checkpoint(self, *, is_own: bool) -> None:
        report, path = self._report, self._root / "checkpoint"
        snapshot = load_snapshot(self._disk, self._root / "checkpoint.json", self._times(), is_own=is_own)
        if snapshot is None and not self._disk.exists(path):
            report.add("checkpoint", path.name, "is not there: the next start reads more of the log", is_damage=False)
            return
        if snapshot is not None and snapshot.log_offset > report.log_end:
            lost = snapshot.log_offset - report.log_end
            text = (
                f"the log was on disk up to {snapshot.log_offset} and ends at {report.log_end}: {lost} bytes are lost"
            )
            report.add("checkpoint", path.name, text)

    def _check_configs(self) -> None:
        directory = self._root / "config"
        for name in self._disk.list(directory):
            if not name.endswith(".json"):
                continue
            if (error := self._config_error(directory / name)) is None:
                continue
            backup = directory / f"{name}.bak"
            has_backup = self._disk.exists(backup) and self._config_error(backup) is None
            what = f"is not readable ({error}); its .bak is {'good' if has_backup else 'no help'}"
            self._report.add("config", name, what, can_repair=has_backup)
            if has_backup:
                self._report.broken_configs.append(name)

    def _config_error(self, path: Path) -> str | None:
        data = self._disk.read(path)
        if not data.strip():
            return "it is empty"
        try:
            parse(data)
        except MQError as error:
            return str(error)
        return None


def known_topics(disk: Disk, root: Path) -> set[str]:
    """Topics that exist, as far as the broker's file and the last checkpoint tell."""
    topics: set[str] = set()
    snapshot = load_snapshot(disk, root / "checkpoint.json", load_checkpoint(disk, root / "checkpoint"))
    if snapshot is not None:
        topics |= snapshot.queues.keys()
    try:
        table = parse(disk.read(root / "config" / "topics.json"))
        if isinstance(table, dict) and isinstance(table.get("topicConfigTable"), dict):
            topics |= {str(topic) for topic in table["topicConfigTable"]}
    except (MQError, OSError):
        pass
    return topics
