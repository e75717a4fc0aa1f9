"""The store as its owner sees it: open it, append, read, search, wait for the disk, close it.

    async with MessageStore.open(config, disk=disk, clock=clock) as store:
        result = store.put(NewMessage(topic="TopicTest", queue_id=0, body=b"hello", ...))
        found = await store.read_messages("TopicTest", 0, 0, 32)

Rule 1: one event loop, one thread. Every method is called there; those that may wait for the disk are coroutines.
Rule 2: opening takes the lock, looks at the files, marks the directory as in use (`abort`), and only then recovers: a
start that is cut off is a crash as any other. A store that is refused for its files' sizes is not marked. Closing
flushes everything, writes the checkpoint, and removes the mark.
Rule 3: what was added to an open batch of the appender is written before anything is read: readers see all of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from skyrocketmq.config import BrokerRole, StoreConfig
from skyrocketmq.errors import FlushFailed, StoreError
from skyrocketmq.filters import RecordScan
from skyrocketmq.model.flags import TRANSACTION_MASK, TransactionType, transaction_type
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.ports import Clock, Disk, FileLock
from skyrocketmq.store.appender import REFUSED, Appender, Arrival
from skyrocketmq.store.checkpoint import load_checkpoint
from skyrocketmq.store.cleaning import Cleaner
from skyrocketmq.store.cold_reads import ColdReads, Pending, Steps
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.cut_mark import CUT_NAME
from skyrocketmq.store.file_rows import make_directories
from skyrocketmq.store.filtered_reading import read_filtered
from skyrocketmq.store.flushing import LogFlusher
from skyrocketmq.store.index import Index
from skyrocketmq.store.index_file import IndexLayout
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.log_files import require_synced_log
from skyrocketmq.store.queue_extension import ExtensionUnit, QueueExtensions
from skyrocketmq.store.reading import SCAN_CELLS_MAX, Buffer, GetResult, ReadLimits, read_queue, read_resident
from skyrocketmq.store.rebuild_note import RebuildNote
from skyrocketmq.store.record_shape import RecordShape, split_unique_key
from skyrocketmq.store.recovery import Recovered, Recovery, RecoveryWishes
from skyrocketmq.store.searching import (
    QueryResult,
    message_at,
    offset_by_time,
    query,
    queue_store_time,
    store_time_at,
)
from skyrocketmq.store.snapshot import load_snapshot
from skyrocketmq.store.statistics import StoreStatistics
from skyrocketmq.store.statuses import GetStatus, PutStatus, Refusal, RunningFlag, RunningState
from skyrocketmq.store.threads import run_to_end
from skyrocketmq.store.transient_pool import TransientPool
from skyrocketmq.store.upkeep import Upkeep

__all__ = ["MessageStore", "NewMessage", "PutResult"]

logger = logging.getLogger(__name__)

SYNC_FAILED: Final = b"a sync failed"  # in the file `abort`, which is empty otherwise
UNKNOWN_HOST: Final = bytes(8)
CLOSING_ATTEMPTS: Final = 3
NOWHERE: Final = LogOffset(-1)
NO_PLACE: Final = QueueOffset(-1)
_QUEUED: Final = (TransactionType.NONE, TransactionType.COMMIT)  # others have no place in a queue
_SLAVE_KEEPS_OFFSET: Final = frozenset(
    {
        GetStatus.NO_MESSAGE_IN_QUEUE,
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
    }
)


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message for `put`: everything but what the store itself decides."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes  # the text of the record
    born_timestamp: int
    born_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    store_host: bytes | None = None  # of an earlier copy; None for this broker's


class PutResult(msgspec.Struct, frozen=True):
    """How an append ended. Offsets are -1 where the message was not stored."""

    status: PutStatus
    log_offset: LogOffset = NOWHERE
    queue_offset: QueueOffset = NO_PLACE
    store_timestamp: int = 0
    remark: str = ""


class MessageStore:
    """All messages of one broker."""

    def __init__(self, config: StoreConfig, *, disk: Disk, clock: Clock, store_host: bytes = UNKNOWN_HOST) -> None:
        """Use `open`; this only puts the parts together."""
        self.config = config
        self.state = RunningState()
        self.statistics = StoreStatistics()
        self.recovered = Recovered()  # what opening found
        self.log = CommitLog(
            disk,
            config.commit_log_directories,
            file_bytes=config.commit_log_file_bytes,
            cut_mark=config.root_path / CUT_NAME,
            read_only=config.read_only_commit_log_directories,
        )
        self.queues = ConsumeQueues(disk, config.root_path / "consumequeue", file_bytes=config.queue_file_bytes)
        self.extensions: QueueExtensions | None = self._extensions(disk, config) if config.queue_ext_enable else None
        self.index: Index | None = None
        if config.index_enable:
            layout = IndexLayout(slot_count=config.index_slot_count, entry_count=config.index_entry_count)
            self.index = Index(disk, clock, config.root_path / "index", layout)
        self.appender = Appender(
            log=self.log,
            queues=self.queues,
            index=self.index,
            state=self.state,
            statistics=self.statistics,
            clock=clock,
            store_host=store_host,
            message_bytes_max=config.message_bytes_max,
            pool=TransientPool(least_pages=config.commit_least_pages) if config.uses_transient_pool else None,
            extensions=self.extensions,
        )
        self.flusher = LogFlusher(
            self.log,
            clock=clock,
            state=self.state,
            statistics=self.statistics,
            timeout_ms=config.sync_flush_timeout_ms,
        )
        self.flusher.on_failed = self._note_failed_sync
        self._upkeep = Upkeep(
            config,
            disk=disk,
            clock=clock,
            log=self.log,
            queues=self.queues,
            index=self.index,
            appender=self.appender,
            flusher=self.flusher,
            state=self.state,
        )
        self.cleaner = Cleaner(
            config,
            disk=disk,
            clock=clock,
            log=self.log,
            queues=self.queues,
            index=self.index,
            upkeep=self._upkeep,
            state=self.state,
        )
        self._disk = disk
        self._clock = clock
        self._reads = ColdReads(disk, clock)
        self._limits = _limits(config)
        self._topics: dict[str, TopicKeys] = {}
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

    @staticmethod
    def _extensions(disk: Disk, config: StoreConfig) -> QueueExtensions:
        return QueueExtensions(disk, config.root_path / "consumequeue_ext", file_bytes=config.queue_ext_file_bytes)

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

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, to be kept and given to the appender. Raises `IllegalArgument` for an illegal topic name."""
        return self.queues.get(topic, queue_id)

    def shape(self, topic: str, before: bytes, key: bytes, after: bytes) -> RecordShape:
        """The shape of records of a topic whose properties are these three one after the other; keep it."""
        keys = self._topics.get(topic)
        if keys is None:
            keys = self._topics[topic] = TopicKeys(topic)
        return RecordShape(keys, before, key, after, delay_levels_ms=self.config.delay_levels_ms)

    def put(self, message: NewMessage) -> PutResult:
        """Append one message. For the broker's own ones; what clients send goes through `appender`."""
        return self.put_batch([message])[0]

    def put_batch(self, messages: Sequence[NewMessage]) -> list[PutResult]:
        """Append messages that belong together: one file of the log takes all of them, or none is stored."""
        appender = self.appender
        shaped: list[tuple[NewMessage, ConsumeQueue, RecordShape, bytes]] = []
        batch_bytes = 0
        refusal: Refusal | None = None
        shape: RecordShape | None = None
        shaped_as: tuple[str, bytes, bytes, int] | None = None
        for message in messages:
            before, key, after = split_unique_key(message.properties)
            if shape is None or shaped_as != (message.topic, before, after, len(key)):  # most differ in their ids only
                shaped_as = (message.topic, before, after, len(key))
                shape = self.shape(message.topic, before, key, after)
            total = appender.record_bytes(shape, len(message.body), message.born_host, message.store_host)
            refusal = refusal or appender.refusal_of(shape, len(message.body), total)
            batch_bytes += total
            if refusal is None:
                shaped.append((message, self.queues.get(message.topic, message.queue_id), shape, key))
        if refusal is None and not (appender.settle() and appender.begin() and appender.reserve(batch_bytes)):
            refusal = appender.refusal
        if refusal is not None:
            return [PutResult(refusal.status, remark=refusal.remark)] * len(messages)
        results = [self._add(message, queue, shape, key) for message, queue, shape, key in shaped]
        if appender.commit():
            return results
        assert appender.refusal is not None, "a failed append has a reason"
        return [PutResult(appender.refusal.status, remark=appender.refusal.remark)] * len(messages)

    def _add(self, message: NewMessage, queue: ConsumeQueue, shape: RecordShape, key: bytes) -> PutResult:
        appender = self.appender
        queue_offset = QueueOffset(queue.next_offset)
        usual = (
            queue,
            shape,
            key,
            message.body,
            message.flag,
            message.sys_flag,
            message.born_timestamp,
            message.born_host,
            message.reconsume_times,
        )
        if message.sys_flag & TRANSACTION_MASK or message.prepared_transaction_offset or message.store_host is not None:
            if transaction_type(message.sys_flag) not in _QUEUED:
                queue_offset = QueueOffset(0)
            log_offset = appender.add_special(*usual, message.prepared_transaction_offset, message.store_host)
        else:
            log_offset = appender.add(*usual)
        assert log_offset != REFUSED, "room and limits were checked for the whole batch"
        return PutResult(PutStatus.PUT_OK, LogOffset(log_offset), queue_offset, appender.now_ms)

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

    # ----------------------------------------------------------------------------------------------------- reading

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        *,
        tag_codes: AbstractSet[int] | None = None,
        matches: Callable[[Buffer], bool] | None = None,
        scan: RecordScan | None = None,
        scan_max: int = SCAN_CELLS_MAX,
        may_match: Callable[[ExtensionUnit], bool] | None = None,
    ) -> GetResult | Pending[GetResult] | None:
        """Messages of a queue from `offset` on: the result if all is in memory, else what to await (`finish()`).

        None while the store is not readable. `tag_codes`: only messages whose tags have one of these hashes;
        `matches`: only those whose record it accepts, of at most `scan_max` looked at; `scan` asks the same of many.
        `may_match`: none whose unit in the queue's extension, if it has one, is not accepted.
        """
        resident: GetResult | None = None
        if tag_codes is None and matches is None:
            resident = self.get_resident(topic, queue_id, offset, count_max)
        elif tag_codes is None and matches is not None and scan is not None:
            resident = self.get_filtered(
                topic, queue_id, offset, count_max, scan=scan, matches=matches, scan_max=scan_max
            )
        if resident is not None:
            return resident
        if not self.state.is_readable:
            return None
        self.appender.settle()
        started = self._clock.monotonic()
        result = self._reads.start(
            self._get(topic, queue_id, offset, count_max, tag_codes, matches, scan_max, may_match)
        )
        self.statistics.got(self._clock.monotonic() - started, is_cold=isinstance(result, Pending))
        return result

    def get_resident(self, topic: str, queue_id: int, offset: int, count_max: int) -> GetResult | None:
        """The same for the common read, which finds messages and all of them in memory; None if it is not that."""
        if not self.state.is_readable:
            return None
        self.appender.settle()
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return None
        started = self._clock.monotonic()
        result = read_resident(self.log, queue, offset, count_max, limits=self._limits)
        if result is not None:
            statistics = self.statistics
            statistics.got(self._clock.monotonic() - started, is_cold=False)
            statistics.get_found += 1
            statistics.get_count += result.count
        return result

    def get_filtered(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        *,
        scan: RecordScan,
        matches: Callable[[Buffer], bool],
        scan_max: int,
    ) -> GetResult | None:
        """The common read with a filter that looks into messages; None if it is not that."""
        if not self.state.is_readable or self.extensions is not None:  # bit maps may spare the looking
            return None
        self.appender.settle()
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return None
        started = self._clock.monotonic()
        result = read_filtered(
            self.log, queue, offset, count_max, limits=self._limits, scan=scan, matches=matches, scan_max=scan_max
        )
        if result is not None:
            self.statistics.got(self._clock.monotonic() - started, is_cold=False)
            self._count_got(result)
        return result

    async def read_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        *,
        tag_codes: AbstractSet[int] | None = None,
        matches: Callable[[Buffer], bool] | None = None,
        scan_max: int = SCAN_CELLS_MAX,
        may_match: Callable[[ExtensionUnit], bool] | None = None,
    ) -> GetResult | None:
        """The same, waiting for the disk where needed."""
        result = self.get_messages(
            topic,
            queue_id,
            offset,
            count_max,
            tag_codes=tag_codes,
            matches=matches,
            scan_max=scan_max,
            may_match=may_match,
        )
        return await result.finish() if isinstance(result, Pending) else result

    def _get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        tag_codes: AbstractSet[int] | None,
        matches: Callable[[Buffer], bool] | None,
        scan_max: int,
        may_match: Callable[[ExtensionUnit], bool] | None,
    ) -> Steps[GetResult]:
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            result = GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        else:
            try:
                result = yield from self._read(queue, offset, count_max, tag_codes, matches, scan_max, may_match)
            except FileNotFoundError:  # cleaned away while the read waited for the disk: by now the queue knows it
                result = yield from self._read(queue, offset, count_max, tag_codes, matches, scan_max, may_match)
        self._count_got(result)
        if self.config.broker_role is BrokerRole.SLAVE and result.status in _SLAVE_KEEPS_OFFSET:
            # The slave may merely be behind; the master knows better.
            return result if self.config.offset_check_in_slave else replace(result, next_offset=offset)
        return result

    def _count_got(self, result: GetResult) -> None:
        statistics = self.statistics
        if result.count:
            statistics.get_found += 1
            statistics.get_count += result.count
        else:
            statistics.get_missed += 1

    def _read(
        self,
        queue: ConsumeQueue,
        offset: int,
        count_max: int,
        tag_codes: AbstractSet[int] | None,
        matches: Callable[[Buffer], bool] | None,
        scan_max: int,
        may_match: Callable[[ExtensionUnit], bool] | None,
    ) -> Steps[GetResult]:
        extensions = self.extensions
        return read_queue(
            self.log,
            queue,
            offset,
            count_max,
            limits=self._limits,
            tag_codes=tag_codes,
            matches=matches,
            scan_max=scan_max,
            find_unit=None if extensions is None else lambda address: extensions.find(queue, address),
            may_match=may_match,
        )

    async def read_cells(self, queue: ConsumeQueue, offset: int, count_max: int) -> list[tuple[int, int, int]] | None:
        """Cells of a queue (log offset, size, tags code) from an offset on, all of one file; None if there is none."""
        self.appender.settle()
        if not queue.first_offset <= offset < queue.max_offset or count_max <= 0:
            return None
        data = await self._reads.run(queue.read_cells(offset, min(count_max, queue.max_offset - offset)))
        return list(CELL.iter_unpack(data)) or None

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The oldest message of a queue; 0 for one without messages."""
        queue = self.queues.find(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """One more than the newest message of a queue; 0 for one without messages."""
        self.appender.settle()
        queue = self.queues.find(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.max_offset

    def is_far_behind(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message is so far behind the newest that it is taken to be on disk; False if there is none."""
        self.appender.settle()
        queue = self.queues.find(topic, queue_id)
        cell = None if queue is None else queue.read_cell(offset)
        return cell is not None and self.log.max_offset - cell[0] > self._limits.memory_bytes

    # --------------------------------------------------------------------------------------------------- searching

    async def message_at(self, log_offset: int) -> Buffer | None:
        """The record at this place in the log; None if none begins there."""
        self.appender.settle()
        return await self._reads.run(message_at(self.log, log_offset))

    async def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of a queue's message in ms; -1 if there is none."""
        self.appender.settle()
        queue = self.queues.find(topic, queue_id)
        return -1 if queue is None else await self._reads.run(queue_store_time(self.log, queue, offset))

    async def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> QueueOffset:
        """The queue offset of the message stored at this time or nearest to it; 0 if there is none."""
        self.appender.settle()
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return QueueOffset(0)
        return QueueOffset(await self._reads.run(offset_by_time(self.log, queue, timestamp_ms)))

    async def earliest_time(self, topic: str | None = None, queue_id: int = 0) -> int:
        """Store time of the oldest message of a queue, or of the whole store; -1 if there is none."""
        if topic is not None:
            return await self.store_time(topic, queue_id, self.min_offset(topic, queue_id))
        self.appender.settle()
        return await self._reads.run(store_time_at(self.log, self.log.min_offset))

    async def query(self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int) -> QueryResult:
        """The newest messages with this key or unique id, stored between the two times, both included."""
        if self.index is None:
            return QueryResult((), 0, 0)
        self.appender.settle()
        self.appender.index_fresh()
        count_max = min(count_max, self.config.index_query_count_max)
        steps = query(self.log, self.index, topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms)
        return await self._reads.run(steps)

    # ---------------------------------------------------------------------------------------------------- managing

    def apply_config(self, config: StoreConfig) -> None:
        """Follow a change of the keys that may change while the store is open."""
        self.config = config
        self._limits = _limits(config)
        self.appender.set_message_bytes_max(config.message_bytes_max)
        self.flusher.timeout_ms = config.sync_flush_timeout_ms
        self._upkeep.apply_config(config)
        self.cleaner.apply_config(config)

    def set_store_host(self, host: bytes) -> None:
        """The broker's packed address for new records."""
        self.appender.set_store_host(host)

    async def delete_topic_queues(self, topic: str) -> None:
        """Delete the queues of a topic; they begin at 0 if it comes back. Its records stay until the log is cleaned."""
        await self._upkeep.delete_topic(topic)


def _limits(config: StoreConfig) -> ReadLimits:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return ReadLimits(
        bytes_max=config.pull_bytes_max_in_memory,
        count_max=config.pull_count_max_in_memory,
        disk_bytes_max=config.pull_bytes_max_on_disk,
        disk_count_max=config.pull_count_max_on_disk,
        memory_bytes=memory_bytes * config.memory_ratio_percent // 100,
    )
