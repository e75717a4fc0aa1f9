"""The store's only way in: messages are added to a batch, and the batch is committed.

    batch = store.begin()                   # the open batch; there is one at a time, shared by all who add
    result = batch.add(message)             # numbered and packed, or refused; nothing is written yet
    batch.on_end(listener)                  # called with the outcome, whoever commits
    outcome = batch.commit()                # one write to the log; then queues and index, from memory

A broker commits once in a turn of its loop, so that all connections that were ready share one write, one pass over the
index and one wake-up.

Rule 1: readers see nothing of an open batch: its cells wait beside their queues (`QueueTail.pending`). What was added
before a commit is readable after it, or does not exist.
Rule 2: the log comes first, then queues and index, from memory; nothing is read back. If the log cannot be written, the
numbers that were given out are taken back.
Rule 3: a batch may cross files of the log: then what belongs to the full one is written on the way. So a failed commit
says from which log offset on nothing was stored.
Rule 4: with a transient pool a commit leaves the messages in memory, hidden from readers, until the pool is written.
Rule 5: under synchronous flush nobody is woken for a message that a power cut could still take back.
Rule 6: a queue that cannot be written keeps its cells in memory and stops the store from taking more. The messages are
in the log and count as stored. So it is with the index: `key_feed`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import DiskFull, IllegalArgument, StoreError
from skyrocketmq.hot import FULL, KEYS_MAX, QueueTail, RecordBatch
from skyrocketmq.hot.layout import BLANK_BYTES, RECORD_BYTES_MIN, RECORD_HOST_BYTES, RECORD_PROPERTIES_BYTES_MAX
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import TransactionType, transaction_type
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.ports import Clock
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.delay_codes import delivery_ms
from skyrocketmq.store.flushing import LogFlusher
from skyrocketmq.store.key_feed import KeyFeed
from skyrocketmq.store.new_message import NewMessage, PutResult
from skyrocketmq.store.queue_extension import QueueExtensions
from skyrocketmq.store.reservations import Reservations
from skyrocketmq.store.statistics import StoreStatistics
from skyrocketmq.store.statuses import PutStatus, Refusal, RunningFlag, RunningState
from skyrocketmq.store.transient_pool import TransientPool
from skyrocketmq.wire.java import string_hash
from skyrocketmq.wire.properties import find_property

__all__ = ["Arrival", "Batch", "BatchWriter", "Outcome"]

logger = logging.getLogger(__name__)

EVERYTHING_STORED: Final = LogOffset((1 << 63) - 1)
_PUT_OK: Final = PutStatus.PUT_OK  # looking up a member of an enum takes a tenth of a microsecond
_KEYS: Final = names.KEYS.encode()
_TAGS: Final = names.TAGS.encode()
_UNQUEUED: Final = (TransactionType.PREPARED, TransactionType.ROLLBACK)


class Arrival(NamedTuple):
    """A new message in a queue that somebody watches."""

    topic: str
    queue_id: int
    max_offset: int  # of the queue, with this message
    tags_code: int
    store_timestamp: int
    properties: bytes


class Outcome(NamedTuple):
    """What became of a batch: messages from `failed_from` on are not stored, and `refusal` says why."""

    failed_from: LogOffset = EVERYTHING_STORED
    refusal: Refusal | None = None
    end: LogOffset = LogOffset(0)  # of the log, with this batch

    def of(self, result: PutResult) -> PutResult:
        """What became of one message that was added."""
        if self.refusal is None or result.log_offset < self.failed_from:
            return result
        return refused(self.refusal)


class Batch:
    """Messages that are stored together. Made by `BatchWriter.begin`."""

    __slots__ = ("_begin", "_listeners", "_writer", "has_ended", "now_ms", "records", "refusal")

    def __init__(self, writer: BatchWriter, records: RecordBatch, now_ms: int) -> None:
        self.now_ms = now_ms  # the store time of these messages
        self.records = records
        self.refusal: Refusal | None = None  # why nothing more can be added
        self._writer = writer
        self._listeners: list[Callable[[Outcome], object]] = []
        self._begin = records.position
        self.has_ended = False

    @property
    def byte_count(self) -> int:
        """How much was added, written or not."""
        return self.records.position - self._begin

    def add(self, message: NewMessage, *, is_accepted: bool = False) -> PutResult:
        """Number and pack a message: where it will lie once the batch is committed, or why it is refused.

        `is_accepted`: it was taken before, and a limit that was lowered since does not keep it back.
        """
        return self._writer.add(self, message, is_accepted=is_accepted)

    def reserve(self, total_bytes: int) -> Refusal | None:
        """See to it that records of so many bytes in all go into one file: what belongs together is torn by no crash.

        Returns why that cannot be.
        """
        return self._writer.reserve(self, total_bytes)

    def on_end(self, listener: Callable[[Outcome], object]) -> None:
        """Call `listener` once the batch is committed, with its outcome."""
        self._listeners.append(listener)

    def commit(self) -> Outcome:
        """Store what was added. The batch has then ended."""
        assert not self.has_ended, "a batch is committed once"
        return self._writer.commit(self)

    def end(self, outcome: Outcome) -> None:
        """For the writer: tell the listeners."""
        self.has_ended = True
        for listener in self._listeners:
            try:
                listener(outcome)
            except Exception:  # the others' messages are stored all the same, and they have to hear of it
                logger.exception("outcome of a batch not taken")


class BatchWriter:
    """Writes batches. Called on the loop's thread."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        log: CommitLog,
        queues: ConsumeQueues,
        key_feed: KeyFeed,
        state: RunningState,
        statistics: StoreStatistics,
        clock: Clock,
        store_host: bytes,
        pool: TransientPool | None = None,
        extensions: QueueExtensions | None = None,
        reservations: Reservations,
        flusher: LogFlusher | None = None,
    ) -> None:
        """`flusher`: nobody is woken for a message before it has made it durable."""
        self.newest_ms = 0  # store time of the newest message in the log
        self.on_arrival: Callable[[list[Arrival]], None] = _nobody
        self.key_feed = key_feed
        self.store_host = store_host
        self._config = config
        self._log = log
        self._queues = queues
        self._state = state
        self._statistics = statistics
        self._clock = clock
        self._pool = pool
        self._extensions = extensions
        self._reservations = reservations
        self._flusher = flusher
        self._records = RecordBatch()
        self._open: Batch | None = None
        self._failure: Outcome | None = None  # of the open batch
        self._hidden: list[QueueTail] = []  # queues with cells of messages that wait in the pool
        self._arrivals: list[Arrival] = []
        self._has_failed = False  # so did the last write

    def apply_config(self, config: StoreConfig) -> None:
        """Follow a change of the keys that may change while the store is open."""
        self._config = config
        if self._pool is not None:
            self._pool.least_pages = config.commit_least_pages

    @property
    def pool_bytes(self) -> int | None:
        """What is acknowledged but waits in the transient pool; None where there is no pool."""
        return None if self._pool is None else self._pool.byte_count

    # ---------------------------------------------------------------------------------------------------- adding

    def begin(self) -> Batch:
        """The open batch, or a new one; its `refusal` says if the store takes no messages now."""
        batch = self._open
        if batch is None:
            now_ms = self._clock.now_ms()
            self._records.begin(now_ms, int(self._log.max_offset) + self._pooled_bytes(), self._log.limit)
            batch = self._open = Batch(self, self._records, now_ms)
            batch.refusal = self._state.refusal
        elif batch.refusal is None:
            batch.refusal = self._state.refusal
        return batch

    def commit_open(self) -> None:
        """Commit the open batch, if there is one: for whoever has to see all that was asked for before."""
        if self._open is not None:
            self._open.commit()

    def add(self, batch: Batch, message: NewMessage, *, is_accepted: bool) -> PutResult:
        refusal = batch.refusal or self._state.refusal
        refusal = refusal or self.refusal_of(message.properties, 0 if is_accepted else len(message.body))
        if refusal is not None:
            return refused(refusal)
        try:
            queue = self._queues.get(message.topic, message.queue_id)
        except IllegalArgument as error:
            return refused(Refusal(PutStatus.MESSAGE_ILLEGAL, str(error)))
        while True:
            is_queued = transaction_type(message.sys_flag) not in _UNQUEUED
            queue_offset = queue.next_offset if is_queued else 0
            store_host = self.store_host if message.store_host is None else message.store_host
            log_offset = batch.records.add(
                queue,
                message.properties,
                message.body,
                message.flag,
                message.sys_flag,
                message.born_timestamp,
                message.born_host,
                store_host,
                message.reconsume_times,
                message.prepared_transaction_offset,
                self._cell_code(queue, message, batch.now_ms) if is_queued else None,
            )
            if log_offset >= 0:
                return PutResult(_PUT_OK, LogOffset(log_offset), QueueOffset(queue_offset), batch.now_ms)
            assert log_offset == FULL, "limits were looked at before"
            refusal = self.make_room(batch, self.record_bytes(message))
            if refusal is not None:
                return refused(refusal)

    def _cell_code(self, queue: ConsumeQueue, message: NewMessage, now_ms: int) -> int | None:
        """What the cell holds, if that is not the hash of the tags."""
        if message.topic == SCHEDULE_TOPIC:
            return delivery_ms(message.properties, now_ms, self._config.delay_levels_ms)
        if self._extensions is not None:
            tags_code = string_hash(find_property(message.properties, _TAGS) or b"")
            return self._extensions.extend(queue, message.properties, tags_code, now_ms)
        return None

    def refusal_of(self, properties: bytes, body_bytes: int) -> Refusal | None:
        """Why such a message cannot be stored, whatever the state of the store."""
        if body_bytes > self._config.message_bytes_max:
            text = f"the body takes {body_bytes} bytes, maxMessageSize allows {self._config.message_bytes_max}"
            return Refusal(PutStatus.MESSAGE_ILLEGAL, f"{text}: compress or split the message")
        if len(properties) > RECORD_PROPERTIES_BYTES_MAX:
            text = f"the properties take {len(properties)} bytes with the broker's own"
            return Refusal(PutStatus.PROPERTIES_SIZE_EXCEEDED, f"{text}, allowed are {RECORD_PROPERTIES_BYTES_MAX}")
        if properties.count(b" ") >= KEYS_MAX:  # else there cannot be so many
            count = len((find_property(properties, _KEYS) or b"").split())
            if count > KEYS_MAX:
                text = f"the message has {count} keys, allowed are {KEYS_MAX}: each is indexed"
                return Refusal(PutStatus.MESSAGE_ILLEGAL, text)
        return None

    def record_bytes(self, message: NewMessage) -> int:
        """How long the record of a message is."""
        store_host = self.store_host if message.store_host is None else message.store_host
        hosts = len(message.born_host) + len(store_host) - 2 * RECORD_HOST_BYTES
        return RECORD_BYTES_MIN + hosts + len(message.body) + len(message.topic.encode()) + len(message.properties)

    def reserve(self, batch: Batch, total_bytes: int) -> Refusal | None:
        if batch.refusal is not None:
            return batch.refusal
        if batch.records.position + total_bytes <= self._log.limit:
            return None
        return self.make_room(batch, total_bytes)

    def make_room(self, batch: Batch, total_bytes: int) -> Refusal | None:
        """Go on in the next file of the log; what was added so far belongs to this one, and is written."""
        if total_bytes + BLANK_BYTES > self._log.file_bytes:
            text = f"{total_bytes} bytes have to go into one log file, which holds {self._log.file_bytes}: send less"
            return Refusal(PutStatus.MESSAGE_ILLEGAL, text)
        if batch.records.count and not self._write(batch):
            return batch.refusal
        if not self._write_pool() or self._state.refusal is not None:
            return self._state.refusal
        try:
            self._log.make_room(total_bytes)
        except (StoreError, OSError) as error:
            if self._state.raise_flag(RunningFlag.NO_LOG_FILE):
                logger.error("no next log file: messages are refused until there is one", extra={"error": str(error)})
            self._log.on_spare_wanted()  # who reserves files tries again, and lowers the flag
            batch.refusal = _no_file(error)
            return batch.refusal
        batch.records.begin(batch.now_ms, int(self._log.max_offset), self._log.limit)
        return None

    # -------------------------------------------------------------------------------------------------- committing

    def commit(self, batch: Batch) -> Outcome:
        assert batch is self._open, "there is one open batch"
        if batch.records.count:
            self._write(batch)
        self._open = None  # who hears of the outcome may begin another
        failure, self._failure = self._failure, None
        outcome = failure or Outcome(end=LogOffset(batch.records.position))
        if not self._hidden:
            self._tell_arrivals()
        batch.end(outcome)
        return outcome

    def _write(self, batch: Batch) -> bool:
        """Write the records of the batch so far; False if that failed, and then nothing more can be added to it."""
        records = batch.records
        count, first = records.count, LogOffset(int(self._log.max_offset) + self._pooled_bytes())
        data = records.take_records()
        for queue in records.crossed:
            self._reservations.want(queue)  # type: ignore[arg-type]  # all tails here are consume queues
        records.crossed.clear()
        if self._pool is not None:
            self._put_into_pool(self._pool, batch, data, count)
            return True
        started = self._clock.monotonic()
        try:
            if first + len(data) != records.position:
                # Never seen, and never to be written: all that follows would lie elsewhere than queues and answers say.
                raise StoreError(f"records of {len(data)} bytes were to take {records.position - first}")
            if self._reservations.short:
                self._reservations.extend_now()
            self._log.append(data, records.vouched)
        except (StoreError, OSError) as error:
            self._take_back(batch, first, error, count)
            return False
        self._has_failed = False
        self._statistics.put(count, len(data), self._clock.monotonic() - started)
        self.newest_ms = batch.now_ms
        records.vouched.clear()
        self._note_arrivals(batch)
        self._queues.show(records.touched)
        if records.key_count:
            self.key_feed.add(records.take_keys())
        return True

    def _take_back(self, batch: Batch, first: LogOffset, error: Exception, count: int) -> None:
        records = batch.records
        self._queues.take_back(records.touched)
        records.vouched.clear()
        records.arrivals.clear()
        records.take_keys()
        batch.refusal = Refusal(
            PutStatus.SERVICE_NOT_AVAILABLE if isinstance(error, DiskFull) else PutStatus.UNKNOWN_ERROR,
            f"the log could not be written: {error}",
        )
        self._failure = Outcome(first, batch.refusal, first)
        records.begin(batch.now_ms, int(first), 0)  # nothing fits, so nothing is added any more
        self._statistics.put_failed += count
        if not self._has_failed:  # a disk that fails for a while is reported once
            logger.error("append failed", extra={"log_offset": first, "count": count, "error": str(error)})
        self._has_failed = True

    def _note_arrivals(self, batch: Batch) -> None:
        arrivals = batch.records.arrivals
        if arrivals:
            self._arrivals += [
                Arrival(queue.topic, queue.queue_id, end, code, batch.now_ms, properties)  # type: ignore[attr-defined]
                for queue, end, code, properties in arrivals
            ]
            arrivals.clear()

    def _tell_arrivals(self) -> None:
        if not self._arrivals:
            return
        arrivals, self._arrivals = self._arrivals, []
        if self._flusher is None:
            self.on_arrival(arrivals)
        else:
            self._flusher.when_flushed(int(self._log.max_offset), partial(self._wake, arrivals))

    def _wake(self, arrivals: list[Arrival], status: PutStatus) -> None:
        if status is _PUT_OK:  # else they are read when somebody looks, but nobody is called to read what may be lost
            self.on_arrival(arrivals)

    # --------------------------------------------------------------------------------------------- transient pool

    def _pooled_bytes(self) -> int:
        return 0 if self._pool is None else self._pool.byte_count

    def _put_into_pool(self, pool: TransientPool, batch: Batch, data: bytes, count: int) -> None:
        records = batch.records
        pool.add(data, count, records.take_keys(), batch.now_ms, records.vouched)
        records.vouched.clear()
        self._note_arrivals(batch)
        self._hidden += records.touched
        records.touched.clear()
        if pool.is_due:
            self._write_pool()

    def write_pool(self) -> bool:
        """Write what waits in the transient pool, and show it to readers. False if that failed: it waits on."""
        is_written = self._write_pool()
        if is_written and self._open is None:
            self._tell_arrivals()
        return is_written

    def _write_pool(self) -> bool:
        pool = self._pool
        if pool is None or not pool.byte_count:
            return True
        started = self._clock.monotonic()
        try:
            if self._reservations.short:
                self._reservations.extend_now()
            self._log.append(pool.data(), pool.vouched)
        except (StoreError, OSError) as error:
            if self._state.raise_flag(RunningFlag.POOL_WRITE_ERROR, str(error)):
                logger.error("acknowledged messages not written yet", extra={"count": pool.count, "error": str(error)})
            return False
        if self._state.lower_flag(RunningFlag.POOL_WRITE_ERROR):
            logger.info("acknowledged messages are written now", extra={"count": pool.count})
        self._statistics.put(pool.count, pool.byte_count, self._clock.monotonic() - started)
        self.newest_ms = pool.newest_ms
        self._queues.show(self._hidden)
        self.key_feed.add(pool.keys)
        pool.clear()
        return True


def refused(refusal: Refusal) -> PutResult:
    """The result of a message that is not stored."""
    return PutResult(refusal.status, remark=refusal.remark)


def _no_file(error: Exception) -> Refusal:
    if isinstance(error, DiskFull):
        return Refusal(PutStatus.SERVICE_NOT_AVAILABLE, f"the disk is full: {error}")
    return Refusal(PutStatus.CREATE_MAPEDFILE_FAILED, f"the next log file could not be made: {error}")


def _nobody(arrivals: Sequence[Arrival]) -> None:
    """Nobody waits for messages."""
