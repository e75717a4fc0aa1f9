"""The store as its owner sees it: open it, append, read, search, wait for the disk, close it.

    async with MessageStore.open(config, disk=disk, clock=clock) as store:
        result = store.put(NewMessage(topic="TopicTest", queue_id=0, body=b"hello", ...))
        found = await store.read_messages("TopicTest", 0, 0, 32)

Rule 1: one event loop, one thread. Every method is called there; those that may wait for the disk are coroutines.
Rule 2: opening takes the lock, looks at the files, marks the directory as in use (`abort`), and only then recovers: a
start that is cut off is a crash as any other. A store that is refused for its files' sizes is not marked. Closing
flushes everything, writes the checkpoint, and removes the mark.

`store_parts` puts it together, `store_writes` has the ways in and `store_reads` the ways out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from skyrocketmq.config import BrokerRole, StoreConfig
from skyrocketmq.errors import FlushFailed, StoreError
from skyrocketmq.model.offsets import LogOffset
from skyrocketmq.ports import Clock, Disk, FileLock
from skyrocketmq.store.appender import Arrival
from skyrocketmq.store.checkpoint import load_checkpoint
from skyrocketmq.store.file_rows import make_directories
from skyrocketmq.store.log_files import require_synced_log
from skyrocketmq.store.new_message import NewMessage, PutResult
from skyrocketmq.store.rebuild_note import RebuildNote
from skyrocketmq.store.recovery import Recovered, Recovery, RecoveryWishes
from skyrocketmq.store.snapshot import load_snapshot
from skyrocketmq.store.statuses import PutStatus, Refusal, RunningFlag
from skyrocketmq.store.store_parts import UNKNOWN_HOST
from skyrocketmq.store.store_reads import StoreReads
from skyrocketmq.store.store_writes import StoreWrites
from skyrocketmq.store.threads import run_to_end

__all__ = ["MessageStore", "NewMessage", "PutResult"]

logger = logging.getLogger(__name__)

SYNC_FAILED: Final = b"a sync failed"  # in the file `abort`, which is empty otherwise
CLOSING_ATTEMPTS: Final = 3


class MessageStore(StoreReads, StoreWrites):
    """All messages of one broker."""

    def __init__(self, config: StoreConfig, *, disk: Disk, clock: Clock, store_host: bytes = UNKNOWN_HOST) -> None:
        """Use `open`; this only puts the parts together."""
        super().__init__(config, disk=disk, clock=clock, store_host=store_host)
        self.flusher.on_failed = self._note_failed_sync
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: FileLock | None = None
        self._is_locked = False  # by whoever opened it
        self._wishes: RecoveryWishes | None = None

    # -------------------------------------------------------------------------------------------- opening, closing

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: StoreConfig,
        *,
        disk: Disk,
        clock: Clock,
        store_host: bytes = UNKNOWN_HOST,
        wishes: RecoveryWishes | None = None,
        is_locked: bool = False,
    ) -> AsyncIterator[MessageStore]:
        """The store in `config.root_path`, recovered and ready; `is_locked` if the caller holds its lock, and keeps it.

        Raises `StoreLocked`, `StoreError` or `OSError`.
        """
        store = cls(config, disk=disk, clock=clock, store_host=store_host)
        store._wishes = wishes
        store._is_locked = is_locked
        try:
            await store._start()
            yield store
        finally:
            await store._stop()

    async def _start(self) -> None:
        self._lock = await run_to_end(self._disk, self._take_lock)
        self.recovered = await run_to_end(self._disk, self._load)
        self.appender.newest_ms = self.recovered.newest_ms
        self.appender.follow_log()
        self.state.lower_flag(RunningFlag.CLOSED)
        if self.config.broker_role is BrokerRole.SLAVE:
            self.state.raise_flag(RunningFlag.NOT_WRITABLE)
        self._tasks = [*self._upkeep.jobs(), *self.cleaner.jobs()]

    def _take_lock(self) -> FileLock | None:
        make_directories(self._disk, self.config.root_path)
        lock = None if self._is_locked else self._disk.lock(self._path("lock"))
        for directory in (*self.config.commit_log_directories, self._path("consumequeue"), self._path("index")):
            make_directories(self._disk, directory)
        return lock

    def _load(self) -> Recovered:
        is_clean = not self._disk.exists(self._path("abort"))
        if not is_clean:
            self._extensions(self._disk, self.config).give_up_all()
        # What these two mend themselves, the size of a last file that holds nothing, may be cut off and done again.
        self.log.load()
        if not self.log.file_starts:
            require_synced_log(self._disk, self.config)
        self.queues.load(is_clean=is_clean)
        if not self.log.file_starts:
            self._disk.unlink(self._path("checkpoint.json"))  # its offsets mean nothing in the log that begins now
        self._mark_in_use()
        times = load_checkpoint(self._disk, self._path("checkpoint"))
        is_index_intact = self.index is None or self.index.load()
        recovered = Recovery(
            self._disk,
            self.log,
            self.queues,
            self.index,
            times=times,
            snapshot=load_snapshot(self._disk, self._path("checkpoint.json"), times),
            is_clean=is_clean,
            is_index_intact=is_index_intact,
            check_crc=self.config.check_crc_on_recover,
            delay_levels_ms=self.config.delay_levels_ms,
            note=RebuildNote(self._disk, self._path("rebuild.json")),
            wishes=self._wishes,
        ).run()
        recovered.newest_ms = recovered.newest_ms or times.log_ms
        if not is_clean and self._disk.read(self._path("abort")) == SYNC_FAILED:
            self.log.write_again()
            self._write_mark(b"")
        return recovered

    def _note_failed_sync(self) -> None:
        """Let the next start know that what it finds in the page cache may never have reached the disk.

        After a failed sync the system takes the pages for written: another sync would pass them over. The note itself
        is not synced, which might fail as well: where it is lost, so are those pages.
        """
        try:
            self._write_mark(SYNC_FAILED)
        except OSError as error:
            logger.error("failed sync not noted", extra={"error": str(error)})

    def _write_mark(self, text: bytes) -> None:
        file = self._disk.open(self._path("abort"))
        try:
            file.truncate(0)
            file.pwrite(text, 0)
        finally:
            file.close()

    def _mark_in_use(self) -> None:
        self._disk.open(self._path("abort"), create=True).close()
        self._disk.sync_directory(self.config.root_path)

    def _path(self, name: str) -> Path:
        return self.config.root_path / name

    async def _stop(self) -> None:
        was_open = not self.state.flags & RunningFlag.CLOSED
        self.appender.commit()
        self.state.raise_flag(RunningFlag.CLOSED)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self.appender.write_pool()  # acknowledged: whatever else fails, it goes to the log
        with ExitStack() as closing:  # each part is closed, whatever happens to the others; the lock goes last
            if self._lock is not None:
                closing.callback(self._lock.release)
                self._lock = None
            if self.index is not None:
                closing.callback(self.index.close)
            closing.callback(self.queues.close)
            if self.extensions is not None:
                closing.callback(self.extensions.close)
            closing.callback(self.log.close)
            closing.callback(self.flusher.close)
            if was_open and await self._save_everything():
                await run_to_end(self._disk, self._remove_mark)

    async def _save_everything(self) -> bool:
        """Flush and write the checkpoint; whether that succeeded, so that the next start has nothing to mend."""
        for attempt in range(CLOSING_ATTEMPTS):
            try:
                await self._upkeep.checkpoint()
            except FlushFailed:
                return False
            except (StoreError, OSError) as error:
                logger.error("not everything saved", extra={"attempt": attempt + 1, "error": str(error)})
            else:
                return not self.state.flags & (RunningFlag.INDEX_WRITE_ERROR | RunningFlag.FLUSH_FAILED)
        return False

    def _remove_mark(self) -> None:
        self._disk.unlink(self._path("abort"))
        self._disk.sync_directory(self.config.root_path)

    # --------------------------------------------------------------------------------------------------- appending

    @property
    def refusal(self) -> Refusal | None:
        """Why the store takes no messages now; None if it takes them."""
        return self.state.refusal

    @property
    def on_arrival(self) -> Callable[[list[Arrival]], None]:
        """Called after a commit with the new messages of queues whose `is_watched` is set."""
        return self.appender.on_arrival

    @on_arrival.setter
    def on_arrival(self, listener: Callable[[list[Arrival]], None]) -> None:
        self.appender.on_arrival = listener

    # ---------------------------------------------------------------------------------------------------- flushing

    @property
    def flushed_offset(self) -> LogOffset:
        """Everything before this place in the log is durable."""
        return self.log.flushed_offset

    def when_flushed(self, end: int, callback: Callable[[PutStatus], object]) -> None:
        """Call back once the log is durable up to `end`, or when the time for that is over; see `LogFlusher`."""
        self.flusher.when_flushed(end, callback)

    async def wait_flushed(self, end: int) -> PutStatus:
        """PUT_OK once the log is durable up to `end`, FLUSH_DISK_TIMEOUT when the time for that is over."""
        return await self.flusher.wait_flushed(end)

    async def flush(self) -> None:
        """Make the log durable as it is now. Raises `FlushFailed`."""
        self.appender.settle()
        self.appender.write_pool()
        await self.flusher.flush()

    async def checkpoint(self) -> None:
        """Make log, queues and index durable, and write down how far that is. Raises `FlushFailed` or `DiskFull`."""
        await self._upkeep.checkpoint()
