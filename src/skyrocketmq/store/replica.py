"""A slave's store: the log is a copy of its master's, byte for byte; queues and index are made from it here.

A hot module: everything that a master stores passes here too.

Rule 1: bytes are taken only where the log ends. An empty log begins wherever a file of the master begins.
Rule 2: pieces come cut anywhere, also within a record. What is whole is dispatched in the same call, so that between
two calls queues and index know all records but the last, unfinished one (`log.unfinished_bytes`).
Rule 3: a disk that refuses is no reason to fall silent: the caller is told, asks again later, and goes on where the log
ends. A record that cannot be read, since the master's log is damaged, is stepped over and reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from skyrocketmq.errors import FlushFailed, ProtocolError, StoreError
from skyrocketmq.hot import check_records
from skyrocketmq.hot.log_records import QueueRun
from skyrocketmq.ports import Disk
from skyrocketmq.store.batch import Arrival
from skyrocketmq.store.consume_queue import CELL, ConsumeQueue
from skyrocketmq.store.dispatch import Dispatcher
from skyrocketmq.store.message_store import MessageStore
from skyrocketmq.store.statuses import RunningFlag
from skyrocketmq.wire.records import (
    BLANK_BYTES,
    BLANK_MAGIC,
    MESSAGE_MAGIC,
    RECORD_BYTES_MIN,
    find_magic,
    log_offset_of,
    properties_of,
    scan_record,
    sizes_at,
    store_time_of,
)

__all__ = ["LogCopy", "NotContinuous"]

logger = logging.getLogger(__name__)

# As long as one of these is set, a copy would grow without its queues, or without being durable one day.
_STOPPING: Final = RunningFlag.CLOSED | RunningFlag.FLUSH_FAILED | RunningFlag.QUEUE_WRITE_ERROR


class NotContinuous(StoreError):
    """The piece does not follow on what is there: another log, or one with files of another size."""


class LogCopy:
    """The one way into a slave's store. Loop's thread only; made once the store is open, closed before it."""

    def __init__(
        self,
        store: MessageStore,
        disk: Disk,
        *,
        on_new_queue: Callable[[str, int], object] = lambda topic, queue_id: None,
    ) -> None:
        """`on_new_queue` is called with topic and queue id when a message comes of a queue that none came of before."""
        self._on_new_queue = on_new_queue
        self._known: set[ConsumeQueue] = set()
        self._store = store
        self._log = store.log
        self._newest: int | None = None  # where the last record begins that was dispatched by this object
        self._is_damaged = False  # the last bytes looked at were no record
        self._dispatcher = Dispatcher(
            disk, store.queues, store.index, delay_levels_ms=store.config.delay_levels_ms, is_complete=True
        )

    @property
    def is_empty(self) -> bool:
        return not self._log.file_starts

    @property
    def end(self) -> int:
        """How far the copy reaches: the next byte that is wanted."""
        return int(self._log.max_offset)

    def last_record(self) -> int | None:
        """Where the newest message begins: of those copied since the start, else of those that a queue knows of.

        None if there is none. May look at every queue.
        """
        if self._newest is not None:
            return self._newest
        cells = [queue.last_message() for queue in self._store.queues if not queue.is_empty]
        return max((cell[0] for cell in cells if cell is not None and cell[1] > 0), default=None)

    def begin_at(self, offset: int) -> bool:
        """Let an empty copy begin here instead of where its master would; False if no file of ours can begin here."""
        if not self.is_empty or offset % self._log.file_bytes:
            return False
        self._log.begin_at(offset)
        return True

    def is_file_start(self, offset: int) -> bool:
        """Whether a file of the log begins here: bytes before and after it are added apart."""
        return offset % self._log.file_bytes == 0

    def append(self, offset: int, pieces: Sequence[bytes | memoryview]) -> None:
        """Add bytes that follow each other, from `offset` on, which all belong into one file of the log.

        Raises `NotContinuous` if they do not fit what is there, `StoreError` or `OSError` if they cannot be stored now;
        then nothing was added. `dispatch` is to be called afterwards; whoever waits for the bytes may be told before.
        """
        log = self._log
        if self._store.state.flags & _STOPPING:
            refusal = self._store.refusal
            raise StoreError(refusal.remark if refusal is not None else "the store takes nothing now")
        data = b"".join(pieces)
        if self.is_empty:
            if offset % log.file_bytes:
                raise NotContinuous(
                    f"the master's log begins at {offset}, which is no multiple of {log.file_bytes}: give "
                    "mappedFileSizeCommitLog the value that it has at the master"
                )
            if offset != log.max_offset:
                log.begin_at(offset)
        elif offset != log.max_offset:
            raise NotContinuous(f"the master sends from {offset} on, the copy ends at {log.max_offset}")
        if offset % log.file_bytes + len(data) > log.file_bytes:
            raise NotContinuous(
                f"{len(data)} bytes at {offset} cross the end of a log file of {log.file_bytes} bytes: give "
                "mappedFileSizeCommitLog the value that it has at the master"
            )
        log.append_copy(data)
        log.unfinished_bytes += len(data)

    def dispatch(self) -> None:
        """Bring queues and index up to the last whole record. Raises `StoreError` or `OSError`; nothing is lost then.

        Pulls that wait for one of the messages are answered.
        """
        log, store = self._log, self._store
        arrivals: list[Arrival] = []
        try:
            while log.unfinished_bytes and self._dispatch_file(arrivals):
                pass
            self._dispatcher.put_keys()  # cells are written out by the upkeep, as those of a master
        except (StoreError, OSError):
            store.state.raise_flag(RunningFlag.QUEUE_WRITE_ERROR)  # lowered by the upkeep, once they can be written
            raise
        finally:
            if arrivals:
                store.on_arrival(arrivals)

    def _dispatch_file(self, arrivals: list[Arrival]) -> bool:
        """Dispatch the whole records of the file in which the first of them lies; True if all of it is done."""
        log = self._log
        begin = int(log.whole_offset)
        file_end = log.next_file_start(begin)
        end = min(int(log.max_offset), file_end)
        data = self._read(begin, end)
        at, length, file_length = 0, end - begin, file_end - begin
        try:
            while length - at >= BLANK_BYTES:
                good_end = check_records(data, at, length, log_offset=begin + at)
                if good_end > at:
                    arrivals += self._dispatch(data, at, good_end)
                    at = good_end
                    continue
                total, magic = sizes_at(data, at)
                is_record = magic == MESSAGE_MAGIC and RECORD_BYTES_MIN <= total <= file_length - at
                is_blank = magic == BLANK_MAGIC and total == file_length - at
                if (is_record or is_blank) and length - at < total:
                    break  # the rest is yet to come
                if is_record:
                    _report_bad(data, at, at + total, begin + at)
                if is_record or is_blank:
                    at += total
                    continue
                at = self._step_over(data, at, begin)
                if length - at < RECORD_BYTES_MIN:
                    break
        finally:  # also where the disk refused: the records at which it did are dispatched again
            log.unfinished_bytes = int(log.max_offset) - begin - at
        return at == file_length

    def _dispatch(self, data: bytes | memoryview, at: int, end: int) -> list[Arrival]:
        """Dispatch records that are whole; returns those that somebody waits for."""
        entries = self._dispatcher.derive(data, at, end)
        queues = self._dispatcher.dispatch(entries.runs, entries.keys)
        self._newest = entries.last_offset
        self._store.writer.newest_ms = entries.last_store_ms
        self._is_damaged = False
        arrivals: list[Arrival] = []
        for run, queue in zip(entries.runs, queues, strict=True):
            if queue not in self._known:
                self._known.add(queue)
                self._on_new_queue(queue.topic, queue.queue_id)
            if queue.is_watched:
                arrivals += _arrivals(run, queue, data[at:end])
        return arrivals

    def _read(self, begin: int, end: int) -> bytes | memoryview:
        """What was copied lately is in memory; only after a long refusal of the disk it may not be."""
        view = self._log.warm_view(begin, end)
        if view is not None:
            start = begin - begin % self._log.file_bytes
            return view[begin - start : end - start]
        cold = self._log.cold_range(begin, end - begin)
        return cold.files.get(cold.path).pread(cold.length, cold.position)

    def _step_over(self, data: bytes | memoryview, at: int, begin: int) -> int:
        """Where to go on behind bytes that are no record: at the next record that says it stands just there."""
        if not self._is_damaged:
            logger.error("the master's log is damaged, looking for its next record", extra={"log_offset": begin + at})
        self._is_damaged = True
        rest = bytes(data)
        candidate = find_magic(rest, at + 1)
        while 0 <= candidate <= len(rest) - RECORD_BYTES_MIN:
            if log_offset_of(rest, candidate) == begin + candidate:
                return candidate
            candidate = find_magic(rest, candidate + 1)
        # A record may begin in the last bytes, and its place be yet to come; unless the file ends here.
        if (begin + len(data)) % self._log.file_bytes == 0:
            return len(data)
        return max(at, len(data) - RECORD_BYTES_MIN + 1)

    async def drop_unfinished(self) -> None:
        """Drop the beginning of a record whose rest has not come; the next connection brings it whole.

        Only after a `dispatch` that went well: else whole records, which may have been acknowledged, would go too.
        Nothing may be appended before this returns. Raises `StoreError` or `OSError`; then nothing was dropped.
        """
        if self._log.unfinished_bytes:
            await self._vouch_for_whole()
            self._log.drop_unfinished()
            self._log.on_append()  # whoever copies from here has such a beginning too

    async def _vouch_for_whole(self) -> None:
        self._log.vouch_for_whole()
        await self._store.flusher.sync_vouchers()

    async def close(self) -> None:
        """Drop the beginning of a record whose rest has not come: whoever opens the store next gets it whole.

        Where the disk still keeps whole records from their queues all stays: they may have been acknowledged, and the
        next start brings the queues up to the log.
        """
        try:
            self.dispatch()
        except (StoreError, OSError) as error:
            logger.warning("messages were not brought to their queues, the next start does it: %s", error)
            return
        if self._log.unfinished_bytes:
            try:
                await self._vouch_for_whole()
            except FlushFailed:
                return  # the store is not closed in order either: the next start drops it
            except (StoreError, OSError) as error:  # the checkpoint that is about to be written does as well
                logger.warning("what stays of a copy has no voucher", extra={"error": str(error)})
        self._log.drop_unfinished()


def _arrivals(run: QueueRun, queue: ConsumeQueue, data: bytes | memoryview) -> Iterator[Arrival]:
    """The messages of a run, whose records are in the data, for those who wait for them."""
    begin = log_offset_of(data)
    for offset, (log_offset, _, _) in enumerate(CELL.iter_unpack(run.cells), run.queue_offset):
        if (cell := queue.read_cell(offset)) is not None:
            record = data[log_offset - begin :]
            yield Arrival(
                queue.topic, queue.queue_id, offset + 1, cell[2], store_time_of(record), properties_of(record)
            )


def _report_bad(data: bytes | memoryview, at: int, end: int, log_offset: int) -> None:
    """Say why this record of the master's, which is there to its end, is not dispatched."""
    try:
        scan_record(data, at, end, check_crc=False)
        logger.error("misplaced record in the master's log", extra={"log_offset": log_offset})
    except ProtocolError as error:
        logger.error("bad record in the master's log", extra={"log_offset": log_offset, "error": str(error)})
