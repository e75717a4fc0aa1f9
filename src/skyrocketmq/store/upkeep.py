"""What a store does in the background: flush the log, write out queues, reserve files, write checkpoints.

Rule 1: a checkpoint says only what is true: first everything is synced, then the times and offsets are written. These
are two files, and a crash may come between them: the offsets count until there are new ones (see `snapshot`).
Rule 2: the disk may be full for a while. What could not be written is tried again every second, the store refuses
messages meanwhile, and goes on by itself. Only a failed sync is final (see `flushing`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from skyrocketmq.config import BrokerRole, FlushDiskType, StoreConfig
from skyrocketmq.errors import DiskFull, FlushFailed, StoreError
from skyrocketmq.loop_watch import LoopWatch, start_task
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.slices import Slices
from skyrocketmq.store.batch import BatchWriter
from skyrocketmq.store.checkpoint import CheckpointTimes, save_checkpoint
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.ended_queues import EndedQueues
from skyrocketmq.store.file_rows import create_reserved, translated
from skyrocketmq.store.flushing import LogFlusher
from skyrocketmq.store.index import Index
from skyrocketmq.store.reservations import Reservations
from skyrocketmq.store.snapshot import Snapshot, save_snapshot
from skyrocketmq.store.statuses import RunningFlag, RunningState
from skyrocketmq.store.threads import run_to_end
from skyrocketmq.store.warm_up import PinnedFiles, warm_up

__all__ = ["Upkeep"]

logger = logging.getLogger(__name__)

WRITE_OUT_COUNT: Final = 8  # queues written out at once: a new one costs three calls of the file system
UNTIMED_FLUSH_MS: Final = 10  # where the log is to be flushed as messages come
RETRY_S: Final = 1.0
CHECKPOINT_BYTES: Final = 512 << 20  # of log at most between two checkpoints: what a start after a crash has to read


class Upkeep:
    """The background work of one store. `jobs` are to be run as tasks and cancelled at the end."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        disk: Disk,
        clock: Clock,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        writer: BatchWriter,
        flusher: LogFlusher,
        reservations: Reservations,
        ended: EndedQueues,
        state: RunningState,
    ) -> None:
        self._config = config
        self._disk = disk
        self._clock = clock
        self._log = log
        self._queues = queues
        self._index = index
        self._writer = writer
        self._flusher = flusher
        self._reservations = reservations
        self._ended = ended
        self._state = state
        self._spare_wanted = asyncio.Event()
        self._pinned = PinnedFiles()
        self.checkpoint_offset = 0  # of the log, at the last checkpoint
        self.turn = asyncio.Lock()  # guards syncing and deleting the files of queues, and writing the checkpoint
        self._log_flushed_at = self._pool_written_at = clock.monotonic()
        log.on_spare_wanted = self._spare_wanted.set

    def jobs(self, watch: LoopWatch | None) -> list[asyncio.Task[None]]:
        """Start the background work."""
        config = self._config
        self.checkpoint_offset = int(self._log.flushed_offset)
        if config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            flush_log = self._flusher.run(idle_flush_s=config.flush_interval_ms / 1000)
        else:
            flush_log = self._repeat(self._flush_interval_ms, self._flush_log, "log could not be flushed")
        works = {
            "store-flush-log": flush_log,
            "store-flush-queues": self._repeat(
                lambda: self._config.queue_flush_interval_ms, self.flush_queues, "consume queues could not be flushed"
            ),
            "store-checkpoint": self._repeat(
                lambda: self._config.queue_flush_thorough_interval_ms, self.checkpoint, "no checkpoint written"
            ),
            "store-reserve-files": self._reserve_files(),
            "store-reserve-numbers": self._reservations.run(),
        }
        if config.uses_transient_pool:
            works["store-write-pool"] = self._repeat(
                lambda: self._config.commit_interval_ms, self._write_pool, "transient pool could not be written"
            )
        is_empty_copy = config.broker_role is BrokerRole.SLAVE and not self._log.file_starts
        if not self._log.limit and not is_empty_copy:  # where an empty copy begins is for its master to say
            self._spare_wanted.set()
        return [start_task(work, name=name, watch=watch) for name, work in works.items()]

    async def _repeat(self, interval_ms: Callable[[], int], work: Callable[[], Awaitable[None]], failure: str) -> None:
        """Run `work` for ever, each time after the interval that is configured then; a failed run is not the last."""
        while True:
            await self._clock.sleep(interval_ms() / 1000)
            try:
                await work()
            except Exception as error:
                is_expected = isinstance(error, (StoreError, OSError))
                logger.error(failure, extra={"error": str(error)}, exc_info=not is_expected)

    def apply_config(self, config: StoreConfig) -> None:
        """Follow a change: an interval counts from the next run of its work on."""
        self._config = config

    # --------------------------------------------------------------------------------------------------------- log

    def _flush_interval_ms(self) -> int:
        interval_ms = self._config.flush_interval_ms
        return interval_ms if self._config.flush_timed else min(interval_ms, UNTIMED_FLUSH_MS)

    async def _write_pool(self) -> None:
        """One round with a transient pool: many pages now, a few after a while."""
        now = self._clock.monotonic()
        is_thorough = now - self._pool_written_at >= self._config.commit_thorough_interval_ms / 1000
        self._writer.commit_open()  # which writes it where it is large
        if is_thorough:
            self._pool_written_at = now
            self._writer.write_pool()

    async def _flush_log(self) -> None:
        """One round of asynchronous flushing: whole pages now, a begun page after a while."""
        now = self._clock.monotonic()
        is_thorough = now - self._log_flushed_at >= self._config.flush_thorough_interval_ms / 1000
        if is_thorough:
            self._log_flushed_at = now
        if is_thorough or self._flusher.unflushed_pages() >= max(self._config.flush_least_pages, 1):
            try:
                await self._flusher.flush()
            except FlushFailed:
                pass  # logged where it happened, and the store refuses messages from now on

    async def _reserve_files(self) -> None:
        """Reserve the next log file whenever half of the present one is used."""
        try:
            await self._reserve_for_ever()
        finally:
            self._pinned.keep_only(set())

    async def _reserve_for_ever(self) -> None:
        while True:
            await self._spare_wanted.wait()
            self._spare_wanted.clear()
            path = self._log.next_file_path()
            if path is None:
                self._log_goes_on()
                continue
            try:
                await run_to_end(self._disk, create_reserved, self._disk, path, self._log.file_bytes)
            except (StoreError, OSError) as error:
                logger.warning("next log file not reserved yet", extra={"path": str(path), "error": str(error)})
                if self._log.spare_failed(path):
                    await run_to_end(self._disk, self._disk.unlink, path)
                elif not isinstance(error, StoreError):
                    # A roll has made the file meanwhile and writes to it: if it was the sync that failed, messages
                    # may have been among what it could not write, and the next sync would not say so.
                    self._flusher.fail(error)
                await self._clock.sleep(RETRY_S)
                self._spare_wanted.set()
            except asyncio.CancelledError:
                self._log.spare_ready(path)  # made or half made, closing deletes it
                raise
            else:
                self._log.spare_ready(path)
                self._log_goes_on()
                if self._config.warm_files:
                    await self._warm_up(path)

    async def _warm_up(self, path: Path) -> None:
        """Bring a file into memory before it is used, and let go of those that the log has left."""
        pages = self._config.warm_step_pages
        try:
            unpin = await run_to_end(self._disk, warm_up, self._disk, path, self._log.file_bytes, step_pages=pages)
        except OSError as error:
            logger.warning("file not warmed up", extra={"path": str(path), "error": str(error)})
            return
        self._pinned.add(path, unpin)
        self._pinned.keep_only({file.path for file in self._log.files[-1:]} | {path})

    def _log_goes_on(self) -> None:
        if self._state.lower_flag(RunningFlag.NO_LOG_FILE):
            logger.info("there is a next log file: messages are taken again")

    # ------------------------------------------------------------------------------------------- queues, checkpoint

    async def flush_queues(self) -> None:
        """One round: try late index keys, write out cells, sync queues with much to sync."""
        self._writer.key_feed.put_all()
        await self._write_out_queues()
        if self.turn.locked():
            return  # a checkpoint of many queues takes its time, and syncs them anyway
        async with self.turn:
            try:
                await self._queues.sync(self._queues.to_sync(max(self._config.queue_flush_least_pages, 1)))
            except OSError as error:
                self._flusher.fail(error)
                return
        if self._log.max_offset - self.checkpoint_offset >= CHECKPOINT_BYTES:
            await self.checkpoint()

    async def _write_out_queues(self) -> None:
        """Write cells to their files, a number of queues at a time. Raises what the disk raises."""
        self._log_first()
        slices = Slices(self._clock)
        while self._write_out(WRITE_OUT_COUNT):
            await slices.step()

    def _log_first(self) -> None:
        """Cells of what waits in the transient pool must not reach a file before their messages do."""
        self._writer.commit_open()
        if not self._writer.write_pool():
            raise StoreError("the transient pool could not be written to the log, it is tried again")
        self._writer.key_feed.put_all()

    def _write_out(self, count_max: int | None) -> bool:
        self._log_first()
        try:
            has_more = self._queues.write_out(count_max)
        except (StoreError, OSError):
            self._state.raise_flag(RunningFlag.QUEUE_WRITE_ERROR)
            raise
        if not has_more and self._state.lower_flag(RunningFlag.QUEUE_WRITE_ERROR):
            logger.info("consume queues can be written again")
        return has_more

    async def checkpoint(self) -> None:
        """Make everything durable that is stored now, and write down how far that is.

        Raises `FlushFailed` if a sync fails, `DiskFull` or `OSError` if queues cannot be written.
        """
        async with self.turn:
            self._check_syncs()
            self._writer.key_feed.put_all()
            await self._write_out_queues()
            # From here to the snapshot nothing else runs: log, queues and index are seen at one and the same moment.
            self._log_first()
            self._log.erase_garbage()
            self._write_out(None)
            snapshot = self._snapshot()
            self._log.begin_vouchers()
            to_sync = self._queues.to_sync(0)
            await self._flusher.flush()
            try:
                await self._queues.sync(to_sync)
                if self._index is not None:
                    await self._index.sync()
                self._check_syncs()
                is_noted = await run_to_end(self._disk, self._log.note_flushed, snapshot.log_offset)
                await run_to_end(self._disk, self._save, snapshot)
                if is_noted:  # else nothing but checkpoint.json would say that these records are whole
                    await run_to_end(self._disk, self._log.vouchers.drop_old)
            except DiskFull:
                raise  # the checkpoint before this one stays true, and there will be another
            except OSError as error:
                self._flusher.fail(error)
                raise FlushFailed(f"the checkpoint could not be written: {error}") from error
            self.checkpoint_offset = snapshot.log_offset
            self._reservations.tidy_soon()

    def _check_syncs(self) -> None:
        """Once a sync has failed, no checkpoint is true any more: what it should have written may be gone."""
        if self._state.flags & RunningFlag.FLUSH_FAILED:
            raise FlushFailed("an earlier sync failed: check the disk and restart to recover")

    def _snapshot(self) -> Snapshot:
        newest_ms = self._writer.newest_ms
        queues: dict[str, dict[str, int]] = {}
        for queue in self._queues:
            # Of an empty queue whose topic was deleted `ended_queues` tells; here it would look like one that is lost.
            ended = self._ended.find(queue.topic, queue.queue_id) if queue.is_empty else 0
            if queue.max_offset > ended:
                queues.setdefault(queue.topic, {})[str(queue.queue_id)] = int(queue.max_offset)
        return Snapshot(
            log_ms=newest_ms,
            queues_ms=newest_ms,
            index_ms=newest_ms,
            log_offset=int(self._log.whole_offset),
            queues=queues,
            index_files=self._index.names if self._index is not None else (),
        )

    def _save(self, snapshot: Snapshot) -> None:
        root = self._config.root_path
        times = CheckpointTimes(snapshot.log_ms, snapshot.queues_ms, snapshot.index_ms)
        self._ended.save()  # what a deletion could not save; a queue of which nothing else tells is not in the snapshot
        save_checkpoint(self._disk, root / "checkpoint", times)
        try:
            save_snapshot(self._disk, root / "checkpoint.json", snapshot)  # syncs the directory too
        except OSError as error:
            raise translated(error, root / "checkpoint.json") from error

    async def delete_topic(self, topic: str) -> None:
        """Empty the queues of a topic and delete their files. Its records stay in the log until that is cleaned."""
        async with self.turn:
            self._log_first()
            files, directories = self._queues.clear_topic(topic)
            try:
                await run_to_end(self._disk, self._delete, files, directories)
            finally:
                self._queues.resume(topic)
        await self.checkpoint()  # else the next start would take the queues for lost, and build them again

    def _delete(self, files: list[Path], directories: list[Path]) -> None:
        self._ended.save()
        for path in files:
            self._disk.unlink(path)
        for directory in directories:
            try:
                self._disk.remove_directory(directory)
            except OSError as error:
                logger.warning("directory stays", extra={"path": str(directory), "error": str(error)})
