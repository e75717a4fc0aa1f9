"""Deleting what is old, and watching how full the disk is.

    used share of the disk          what happens
    > diskMaxUsedSpaceRatio (75 %)  log files older than fileReservedTime are deleted at any hour
    > 85 %                          the oldest log files are deleted before their time, if that is allowed
    > 90 %                          messages are refused, until there is room again
    otherwise                       old log files are deleted in the hours of deleteWhen

Rule 1: the oldest file first, never the newest, nothing that is not flushed, ten files a run at most. The first file
that may not go yet ends the run: the log has no holes.
Rule 2: queues and index follow the log. A file of theirs goes when all it holds points to messages that are gone.
Rule 3: a log file goes only after a checkpoint that covers it: the queues' own files then know what was in it.
Rule 4: what is deleted is forgotten first: readers do not find it any more, and whoever reads from it at this moment
reads to the end. Its space is free once the last of them is done. What the system does not let go is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import StoreError
from skyrocketmq.loop_watch import LoopWatch, start_task
from skyrocketmq.ports import Clock, Disk, File, every
from skyrocketmq.slices import Slices
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.store.commit_log import CommitLog, LogFile
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, FILLER_SIZE, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.index import Index
from skyrocketmq.store.statuses import RunningFlag, RunningState
from skyrocketmq.store.threads import run_to_end
from skyrocketmq.store.upkeep import Upkeep

__all__ = ["CleanDecision", "Cleaner", "decide"]

logger = logging.getLogger(__name__)

FILES_A_RUN_MAX: Final = 10
ASKED_RUNS: Final = 20  # what an operator's wish is worth: so many runs, at any hour
FIRST_CLEAN_S: Final = 60.0
CELLS_AT_ONCE: Final = 4096
FIRST_CHECK_S: Final = 1.0
CHECK_EVERY_S: Final = 10.0
UNKNOWN_RATIO: Final = -1.0
HOUR_MS: Final = 3_600_000
LIMIT_KEY: Final = "rocketmq.broker.diskSpaceWarningLevelRatio"


@dataclass(frozen=True, slots=True)
class CleanDecision:
    """What one run deletes: `is_due` old files, `is_forced` others too."""

    is_due: bool
    is_forced: bool


def decide(config: StoreConfig, *, log_ratio: float, queue_ratio: float, hour: int, is_asked: bool) -> CleanDecision:
    """What to do at this hour, with the partitions of log and queues used so far; a negative share is unknown."""
    ratios = (log_ratio, queue_ratio)
    is_tight = any(ratio < 0 or ratio > config.disk_used_percent_max / 100 for ratio in ratios)
    is_forced = config.clean_forcibly and max(ratios) > config.disk_clean_ratio
    return CleanDecision(is_forced or is_tight or is_asked or hour in config.delete_hours, is_forced)


class Cleaner:
    """The work of one store. `jobs` are to be run as tasks and cancelled at the end."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        disk: Disk,
        clock: Clock,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        upkeep: Upkeep,
        state: RunningState,
    ) -> None:
        self.deleted_count = 0  # log files
        self.stuck: list[Path] = []  # files that could not be deleted yet
        self._config = config
        self._disk = disk
        self._clock = clock
        self._log = log
        self._queues = queues
        self._index = index
        self._upkeep = upkeep
        self._state = state
        self._reads = ColdReads(disk, clock)
        self._asked_runs = 0
        self._queues_cleaned_to = -1  # the beginning of the log when queues and index last followed it
        self._stuck_tried_at = clock.monotonic()
        self._held: list[_HeldMap] = []

    def jobs(self, watch: LoopWatch | None) -> list[asyncio.Task[None]]:
        """Start the periodic work."""
        check = every(
            CHECK_EVERY_S, self.check_disk, clock=self._clock, first_after=FIRST_CHECK_S, on_error=_failed("disk")
        )
        clean = every(
            self._config.clean_interval_ms / 1000,
            self.clean,
            clock=self._clock,
            first_after=FIRST_CLEAN_S,
            on_error=_failed("files"),
        )
        return [
            start_task(check, name="store-check-disk", watch=watch),
            start_task(clean, name="store-clean", watch=watch),
        ]

    def apply_config(self, config: StoreConfig) -> None:
        self._config = config

    # ------------------------------------------------------------------------------------------------------ levels

    async def check_disk(self) -> tuple[float, float]:
        """Refuse messages while a partition is too full, take them again when it is not; returns the shares used."""
        log_ratio, queue_ratio = await run_to_end(self._disk, self._ratios)
        limit = self._config.disk_warning_ratio
        if max(log_ratio, queue_ratio) > limit:
            text = f"{max(log_ratio, queue_ratio):.0%} of it is used, {limit:.0%} is the limit: {LIMIT_KEY}"
            if self._state.raise_flag(RunningFlag.DISK_FULL, text):
                logger.error(
                    "the disk is full: messages are refused",
                    extra={"log_used": log_ratio, "queues_used": queue_ratio, "limit": limit},
                )
        elif self._state.lower_flag(RunningFlag.DISK_FULL):
            logger.info("the disk has room again: messages are taken", extra={"log_used": log_ratio})
        return log_ratio, queue_ratio

    def _ratios(self) -> tuple[float, float]:
        """Shares used: of the emptiest of the log's partitions, as new files go there, and of the queues'. Blocks."""
        log = min(self._ratio(path) for path in self._config.commit_log_directories)
        return log, self._ratio(self._config.root_path)

    def _ratio(self, path: Path) -> float:
        try:
            return self._disk.usage(path).used_ratio
        except OSError as error:
            logger.warning("no telling how full the disk is", extra={"path": str(path), "error": str(error)})
            return UNKNOWN_RATIO

    # ---------------------------------------------------------------------------------------------------- cleaning

    def ask(self) -> None:
        """An operator's wish: delete old files now, whatever the hour."""
        self._asked_runs = ASKED_RUNS

    async def clean(self) -> None:
        """One run. Raises what the disk raises; the next run goes on."""
        log_ratio, queue_ratio = await self.check_disk()
        hour = datetime.fromtimestamp(self._clock.now_ms() // 1000).hour
        decision = decide(
            self._config, log_ratio=log_ratio, queue_ratio=queue_ratio, hour=hour, is_asked=self._asked_runs > 0
        )
        self._asked_runs = max(self._asked_runs - 1, 0)
        if decision.is_due:
            await self._delete_log_files(decision)
        await self._retry_stuck()
        if self._log.min_offset > self._queues_cleaned_to:
            await self.follow_log()
        if self._state.flags & RunningFlag.DISK_FULL:
            await self.check_disk()  # what was just deleted may be enough
        self._watch_held()

    async def _delete_log_files(self, decision: CleanDecision) -> None:
        reserved_ms = self._config.file_reserved_hours * HOUR_MS
        for file in self._log.deletable_files()[:FILES_A_RUN_MAX]:
            if self._stuck_log_files():
                return  # that one first: if it is there at the next start, what follows it must be there too
            modified_ms = await run_to_end(self._disk, self._disk.modified_ms, file.path)
            is_old = self._clock.now_ms() >= modified_ms + reserved_ms
            if not is_old and not decision.is_forced:
                return
            if file.start + self._log.file_bytes > self._upkeep.checkpoint_offset:
                # A queue may have all its messages in this file. How far it had come must be known without them.
                await self._upkeep.checkpoint()
            await self._delete_log_file(file, is_old=is_old)
            if self._config.commit_log_delete_pause_ms:
                await self._clock.sleep(self._config.commit_log_delete_pause_ms / 1000)

    async def _delete_log_file(self, file: LogFile, *, is_old: bool) -> None:
        if file.view is not None:
            self._held.append(_HeldMap(file.path, weakref.ref(file.view.obj), self._clock.monotonic()))
        self._log.drop(file)
        self.deleted_count += 1
        reason = "old" if is_old else "the disk fills"
        logger.info("log file deleted", extra={"path": str(file.path), "reason": reason})
        await self._unlink([file.path])

    async def _unlink(self, paths: list[Path]) -> None:
        """Delete files that nobody finds any more; those that do not go are kept for another try."""
        blocked = {path.parent for path in self.stuck}
        self.stuck += [path for path in paths if path.parent in blocked]  # in their order: a row has no holes
        paths = [path for path in paths if path.parent not in blocked]
        failures = await run_to_end(self._disk, _unlink_all, self._disk, paths)
        for path, error in failures.items():
            logger.warning("file could not be deleted, tried again later", extra={"path": str(path), "error": error})
            if not self.stuck:
                self._stuck_tried_at = self._clock.monotonic()
            self.stuck.append(path)

    async def _retry_stuck(self) -> None:
        waited_s = self._clock.monotonic() - self._stuck_tried_at
        if self.stuck and waited_s >= self._config.redelete_interval_ms / 1000:
            paths, self.stuck = self.stuck, []
            await self._unlink(paths)

    def _watch_held(self) -> None:
        """Say it once if a deleted file still takes its space, because a slow reader has not let go of it."""
        now = self._clock.monotonic()
        limit_s = self._config.destroy_forcibly_after_ms / 1000
        still = [held for held in self._held if held.map() is not None]
        for held in still:
            if not held.is_told and now - held.since >= limit_s:
                held.is_told = True
                logger.warning("deleted log file still held by a reader", extra={"path": str(held.path)})
        self._held = still

    # -------------------------------------------------------------------------------------------- queues and index

    async def follow_log(self) -> None:
        """Let queues and index begin where the log begins, and delete their files from before."""
        log_min = int(self._log.min_offset)
        # A file that does not go may be part of the log again after a restart: what belongs to it is kept as well.
        kept_from = min([log_min, *(int(path.name) for path in self._stuck_log_files())])
        slices = Slices(self._clock)
        for queue in list(self._queues):
            await slices.step()
            if queue.is_empty:
                continue
            async with self._upkeep.turn:  # no sync, no checkpoint and no deleted topic in between
                has_deleted = await self._clean_queue(queue, log_min, kept_from)
            if has_deleted and self._config.queue_delete_pause_ms:
                await self._clock.sleep(self._config.queue_delete_pause_ms / 1000)
        await self._clean_index(kept_from)
        self._queues_cleaned_to = kept_from

    def _stuck_log_files(self) -> list[Path]:
        return [path for path in self.stuck if path.parent in self._config.commit_log_directories]

    async def _clean_queue(self, queue: ConsumeQueue, log_min: int, kept_from: int) -> bool:
        old = queue.old_files()
        expired = await run_to_end(self._disk, _expired_count, self._disk, old, kept_from) if old else 0
        paths = queue.drop_files(expired)
        if paths:
            await self._unlink(paths)
        queue.move_min_offset(await self._reads.run(queue.find_min_offset(log_min)))
        return bool(paths)

    async def _clean_index(self, kept_from: int) -> None:
        paths = self._index.take_old(kept_from) if self._index is not None else []
        if paths:
            try:
                # The checkpoint has to know before they are gone, else the next start takes the index for lost.
                await self._upkeep.checkpoint()
            finally:
                await self._unlink(paths)


@dataclass(slots=True)
class _HeldMap:
    path: Path
    map: Callable[[], object | None]
    since: float
    is_told: bool = False


def _unlink_all(disk: Disk, paths: list[Path]) -> dict[Path, str]:
    """Delete files, with durable effect; returns those that could not be, and those behind them in a row. Blocks."""
    failures: dict[Path, str] = {}
    for path in paths:
        if any(path.parent == failed.parent for failed in failures):
            failures[path] = "one before it could not be deleted"
            continue
        try:
            disk.unlink(path)
        except OSError as error:
            failures[path] = str(error)
            continue
        try:
            disk.sync_directory(path.parent)  # one by one: a power cut must not bring back one before others
        except OSError as error:  # after a power cut it may be there again, and is deleted again
            logger.warning("deletion may not be durable", extra={"path": str(path), "error": str(error)})
    return failures


def _expired_count(disk: Disk, files: list[Path], log_min: int) -> int:
    """How many of a queue's files, from the first on, hold only cells of messages that the log has no more. Blocks."""
    for number, path in enumerate(files):
        file = disk.open(path, writable=False)
        try:
            place = _last_place(file)
        finally:
            file.close()
        if place is None or place >= log_min:
            return number
    return len(files)


def _last_place(file: File) -> int | None:
    """Where the last cell leads that is no filler, 0 if all are; None if the file is too short for a cell. Blocks."""
    end = file.size()
    if end < CELL_BYTES:
        return None
    while end > 0:
        begin = max(end - CELLS_AT_ONCE * CELL_BYTES, 0)
        data = file.pread(end - begin, begin)
        for at in range(len(data) - CELL_BYTES, -1, -CELL_BYTES):
            log_offset, size, _ = CELL.unpack_from(data, at)
            if size != FILLER_SIZE:
                return int(log_offset)
        end = begin
    return 0


def _failed(what: str) -> Callable[[Exception], None]:
    def log(error: Exception) -> None:
        is_expected = isinstance(error, (StoreError, OSError))
        logger.error("cleaning failed", extra={"part": what, "error": str(error)}, exc_info=not is_expected)

    return log
