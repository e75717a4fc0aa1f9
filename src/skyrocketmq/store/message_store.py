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

import msgspec

from skyrocketmq.config import BrokerRole, StoreConfig
from skyrocketmq.errors import FlushFailed, StoreError
from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.model.offsets import LogOffset
from skyrocketmq.ports import Clock, Disk, FileLock, Machine
from skyrocketmq.store.checkpoint import CheckpointTimes, load_checkpoint
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.cut_aside import CUT_ASIDE_NAME, CutAside
from skyrocketmq.store.file_rows import make_directories
from skyrocketmq.store.flushed_note import FLUSHED_NAME
from skyrocketmq.store.log_end import LogEnd
from skyrocketmq.store.log_files import require_synced_log
from skyrocketmq.store.new_message import NewMessage, PutResult
from skyrocketmq.store.owner import OWNER_NAME, Owner, find_owner, is_foreign, next_id, note_owner
from skyrocketmq.store.rebuild_note import RebuildNote
from skyrocketmq.store.recovery import Recovered, Recovery, RecoveryWishes
from skyrocketmq.store.reservations import COPY_NAME, RESERVED_NAMES, ahead_of_copy, read_reserved
from skyrocketmq.store.snapshot import Snapshot, load_snapshot
from skyrocketmq.store.statuses import PutStatus, Refusal, RunningFlag
from skyrocketmq.store.store_parts import UNKNOWN_HOST
from skyrocketmq.store.store_reads import StoreReads
from skyrocketmq.store.store_writes import StoreWrites
from skyrocketmq.store.threads import run_to_end
from skyrocketmq.store.vouchers import VOUCHERS_NAME

__all__ = ["MessageStore", "NewMessage", "PutResult"]

logger = logging.getLogger(__name__)

SYNC_FAILED: Final = b"a sync failed"  # in the file `abort`, which is empty otherwise
CLOSING_ATTEMPTS: Final = 3


class MessageStore(StoreReads, StoreWrites):
    """All messages of one broker."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        disk: Disk,
        clock: Clock,
        store_host: bytes = UNKNOWN_HOST,
        machine: Machine | None = None,
    ) -> None:
        """Use `open`; this only puts the parts together."""
        super().__init__(config, disk=disk, clock=clock, store_host=store_host, machine=machine)
        self.flusher.on_failed = self._note_failed_sync
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: FileLock | None = None
        self._keeps_lock = False  # it belongs to whoever opened the store
        self._wishes: RecoveryWishes | None = None
        self._owner = Owner(id="", own_from=0)
        self._reserved: dict[tuple[str, int], int] = {}  # numbers that the life before had reserved
        self._keeps_reserved = False  # for the next life, although this one ends in order
        self._was_copy = False  # of a master whose place this store takes now
        self.watch: LoopWatch | None = None  # on the loop that the store runs on

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
        machine: Machine | None = None,
        wishes: RecoveryWishes | None = None,
        lock: FileLock | None = None,
        watch: LoopWatch | None = None,
    ) -> AsyncIterator[MessageStore]:
        """The store in `config.root_path`, recovered and ready; `lock` is its lock, if the caller holds and keeps it.

        Raises `StoreLocked`, `StoreError` or `OSError`.
        """
        store = cls(config, disk=disk, clock=clock, store_host=store_host, machine=machine)
        store._wishes = wishes
        store._lock, store._keeps_lock = lock, lock is not None
        store.watch = watch
        try:
            await store._start()
            yield store
        finally:
            await store._stop()

    async def _start(self) -> None:
        self._lock = await run_to_end(self._disk, self._take_lock)
        self.recovered = await run_to_end(self._disk, self._load, self._lock)
        self.writer.newest_ms = self.recovered.newest_ms
        if self.config.broker_role is BrokerRole.SLAVE:
            self.state.raise_flag(RunningFlag.NOT_WRITABLE)
        else:
            await self._reserve()
        self.state.lower_flag(RunningFlag.CLOSED)
        self._tasks = [*self._upkeep.jobs(self.watch), *self.cleaner.jobs(self.watch)]

    def _take_lock(self) -> FileLock:
        make_directories(self._disk, self.config.root_path)
        lock = self._disk.lock(self._path("lock")) if self._lock is None else self._lock
        own = ("consumequeue", "index", VOUCHERS_NAME)
        for directory in (*self.config.commit_log_directories, *map(self._path, own)):
            make_directories(self._disk, directory)
        return lock

    def _load(self, lock: FileLock) -> Recovered:
        root = self.config.root_path
        is_clean = not self._disk.exists(self._path("abort"))
        # Whoever repairs a store does not say what it is to become.
        is_master = self.config.broker_role is not BrokerRole.SLAVE and self._wishes is None
        self._was_copy = is_master and self._disk.exists(self._path(COPY_NAME))
        if not is_clean:
            self._extensions(self._disk, self.config).give_up_all()
        # What these two mend themselves, the size of a last file that holds nothing, may be cut off and done again.
        self.log.load()
        if not self.log.file_starts:
            require_synced_log(self._disk, self.config)
        if self.config.broker_role is not BrokerRole.SLAVE:  # whose numbers are its master's
            self.ended.load()
        self.queues.load(is_clean=is_clean)
        if not self.log.file_starts:
            self._disk.unlink(self._path(FLUSHED_NAME))  # its offset means nothing in the log that begins now
        self._mark_in_use()
        times = load_checkpoint(self._disk, self._path("checkpoint"))
        is_index_intact = self.index is None or self.index.load()
        log_end = LogEnd(
            self._disk,
            root,
            self.log,
            None if is_clean else find_owner(self._disk, root, lock.read_mark()),
            is_copy=self.config.broker_role is BrokerRole.SLAVE,
        )
        snapshot = self._find_snapshot(times, is_own=log_end.owner is not None)
        recovered = Recovery(
            self._disk,
            self.log,
            self.queues,
            self.index,
            times=times,
            snapshot=snapshot,
            is_clean=is_clean,
            is_index_intact=is_index_intact,
            check_crc=self.config.check_crc_on_recover,
            delay_levels_ms=self.config.delay_levels_ms,
            note=RebuildNote(self._disk, self._path("rebuild.json")),
            log_end=log_end,
            aside=CutAside(self._disk, root / CUT_ASIDE_NAME, now_ms=self._clock.now_ms()),
            wishes=self._wishes,
        ).run()
        recovered.newest_ms = recovered.newest_ms or (times if snapshot is None else snapshot).log_ms
        recovered.was_clean = is_clean
        has_failed = not is_clean and self._disk.read(self._path("abort")) == SYNC_FAILED
        # Of a queue that ends with skipped numbers, messages do not show how long it was.
        is_shorter = recovered.by_times and times.log_ms > 0
        has_lost = has_failed or is_shorter or recovered.bad_records > 0 or recovered.end < log_end.flushed
        recovered.skipped_queues = self.queues.go_on_after_ended(skips=self.config.skip_lost_offsets)
        # Another program gives out numbers without reserving any, and may not stand fillers at the end of a queue.
        if is_clean or self._was_copy or not is_foreign(lock.read_mark()):
            recovered.skipped_queues += self._skip_reserved(log_end.owner, has_lost=has_lost)
        if has_failed:
            self.log.write_again()
            self._write_mark(b"")
        if recovered.end < log_end.flushed:
            self._disk.unlink(self._path(FLUSHED_NAME))  # what comes there now is not synced
        # As long as skipped numbers are not durable, a start in this session has to skip them again.
        self._take_over(lock, log_end.owner, session="" if recovered.skipped_queues else self._disk.session())
        return recovered

    def _find_snapshot(self, times: CheckpointTimes, *, is_own: bool) -> Snapshot | None:
        """What checkpoint.json says, if that counts; if not, the file is gone for good when this returns."""
        path = self._path("checkpoint.json")
        snapshot = load_snapshot(self._disk, path, times, is_own=is_own)
        if snapshot is not None and snapshot.is_within(self.log.file_starts, self.log.file_bytes):
            return snapshot
        if self._disk.exists(path):
            self._disk.unlink(path)
            self._disk.sync_directory(self.config.root_path)
        return None

    def _take_over(self, lock: FileLock, last: Owner | None, *, session: str) -> None:
        """Note that the log's end is this program's work from here on, or from where it was already."""
        end = int(self.log.max_offset)
        if last is None:
            self.log.vouchers.forget()
        else:
            self.log.vouchers.carry_over()
        own_from = end if last is None else min(last.own_from, end)
        # The mark stays as long as nobody else comes: a start that is cut off here must not look like one.
        own_id = next_id(lock.read_mark(), self._clock.now_ms()) if last is None else last.id
        owner = Owner(id=own_id, own_from=own_from, session=session)
        note_owner(self._disk, self.config.root_path, owner)
        if last is None:
            lock.write_mark(owner.mark)
        self.log.begin_notes(owner.id)
        self._owner = owner

    async def _reserve(self) -> None:
        """Let numbers be given out: none that anybody may have read."""
        if not self.config.skip_lost_offsets:
            return  # nothing is reserved, and the next start finds nothing to skip
        self.reservations.begin(self._reserved)
        try:
            if self.recovered.skipped_queues or self._was_copy:
                await self._upkeep.checkpoint()
                await run_to_end(self._disk, self._note_session)
            if not self.recovered.was_clean:  # what was recovered may be in the page cache only, and is read now
                await self.reservations.extend()
        except (StoreError, OSError) as error:
            logger.error("numbers could not be reserved yet", extra={"error": str(error)})

    def _note_session(self) -> None:
        self._owner = msgspec.structs.replace(self._owner, session=self._disk.session())
        note_owner(self._disk, self.config.root_path, self._owner)
        if self._was_copy:  # what was skipped is durable
            self._disk.unlink(self._path(COPY_NAME))
            self._disk.sync_directory(self.config.root_path)

    def _skip_reserved(self, owner: Owner | None, *, has_lost: bool) -> int:
        """Let queues go on after the numbers that were reserved, if what was read may be lost; how many do.

        `has_lost`: although the machine has run on, messages are damaged or gone, or what says how long queues were is
        lost, or a sync has failed, after which the system may have dropped what it could not write. After an orderly
        stop, with no owner, only those numbers are reserved that the queues' files do not show. Without one after a
        crash its note is damaged, and to skip does no harm. Of a copy the master may have had more than there is,
        however it was stopped.
        """
        self._reserved = read_reserved(self._disk, self.config.root_path)
        # Queues of a log that has lost everything are empty at each start, whatever an earlier one has skipped.
        is_same_session = owner is not None and owner.session != "" and owner.session == self._disk.session()
        is_all_there = bool(self.log.file_starts) and is_same_session and not has_lost
        if self._was_copy:
            is_all_there = False
            for queue in self.queues:
                if end := int(queue.max_offset):
                    key = queue.topic, queue.queue_id
                    self._reserved[key] = max(self._reserved.get(key, 0), end + ahead_of_copy(end))
        if self.config.broker_role is BrokerRole.SLAVE or is_all_there or not self.config.skip_lost_offsets:
            return 0
        skipped = 0
        for (topic, queue_id), reserved in self._reserved.items():
            queue = self.queues.get(topic, queue_id)
            if reserved > queue.max_offset:
                queue.skip_to(reserved)
                self.queues.mark_dirty(queue)
                skipped += 1
        if skipped:
            logger.warning("numbers skipped that messages may have had", extra={"queues": skipped})
        return skipped

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
        if self.config.broker_role is BrokerRole.SLAVE:
            self._disk.open(self._path(COPY_NAME), create=True).close()
        self._disk.sync_directory(self.config.root_path)

    def _path(self, name: str) -> Path:
        return self.config.root_path / name

    async def _stop(self) -> None:
        was_open = not self.state.flags & RunningFlag.CLOSED
        self.commit_open()
        self.state.raise_flag(RunningFlag.CLOSED)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self.writer.write_pool()  # acknowledged: whatever else fails, it goes to the log
        with ExitStack() as closing:  # each part is closed, whatever happens to the others; the lock goes last
            if self._lock is not None and not self._keeps_lock:
                closing.callback(self._lock.release)
                self._lock = None
            if self.index is not None:
                closing.callback(self.index.close)
            closing.callback(self.queues.close)
            if self.extensions is not None:
                closing.callback(self.extensions.close)
            closing.callback(self.log.close)
            closing.callback(self.flusher.close)
            closing.callback(self.reservations.close)
            if was_open and await self._save_everything() and await self._end_with_messages():
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

    async def _end_with_messages(self) -> bool:
        """Let no queue's files end with skipped numbers; whether that succeeded.

        Apache's brokers would take the last of them for a message that ends at 2 GiB of the log, and bring nothing to
        any queue before that. Until our next start the numbers stand in `reserved`.
        """
        queues = [queue for queue in self.queues if not queue.is_empty and queue.ends_with_filler()]
        if not queues:
            return True
        self._keeps_reserved = True
        try:
            await run_to_end(self._disk, self._trim, queues)
        except OSError as error:
            logger.error("skipped numbers stay in the queues", extra={"error": str(error)})
            return False
        return await self._save_everything()

    def _trim(self, queues: list[ConsumeQueue]) -> None:
        self.reservations.keep({queue: int(queue.max_offset) for queue in queues})
        self._owner = msgspec.structs.replace(self._owner, session="")  # a start skips them again, also after a kill
        note_owner(self._disk, self.config.root_path, self._owner)
        for queue in queues:
            for path in queue.drop_fillers():
                self._disk.unlink(path)
        self.queues.sync_now(queues)

    def _remove_mark(self) -> None:
        self._disk.unlink(self._path("abort"))
        if self._keeps_reserved:  # who finds the mark again must find its owner too, or would skip nothing
            self._disk.sync_directory(self.config.root_path)
        self._disk.unlink(self._path(OWNER_NAME))  # there is no end that it could speak of
        self._disk.unlink(self._path(FLUSHED_NAME))
        if self.config.broker_role is not BrokerRole.SLAVE:
            for name in RESERVED_NAMES[self._keeps_reserved :]:
                self._disk.unlink(self._path(name))
        self._disk.sync_directory(self.config.root_path)

    # --------------------------------------------------------------------------------------------------- appending

    @property
    def refusal(self) -> Refusal | None:
        """Why the store takes no messages now; None if it takes them."""
        return self.state.refusal

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
        self.commit_open()
        self.writer.write_pool()
        await self.flusher.flush()

    async def checkpoint(self) -> None:
        """Make log, queues and index durable, and write down how far that is. Raises `FlushFailed` or `DiskFull`."""
        await self._upkeep.checkpoint()
