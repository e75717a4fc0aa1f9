"""Putting messages into the store: records into the log, cells into queues, keys into the index, in one go.

A hot module: it handles a batch, usually all messages of one received buffer, with one write to the log. No object is
made for a message but its record's head and its cell.

    appender.begin()
    for ...:
        log_offset = appender.add(queue, shape, key, body, flag, sys_flag, born_ms, born_host, reconsume_times)
    if not appender.commit():
        ...                     # messages from appender.failed_from on are not stored, and `refusal` says why

Rule 1: `add` numbers and packs, nothing is written before `commit` (or before the log file is full: then what came so
far is committed on the way). Whoever reads queues commits first, so a reader never sees half a batch.
Rule 2: log first, then queues and index, from memory; nothing is read back. If the log cannot be written, the numbers
that were given out are taken back, and the messages do not exist.
Rule 3: with a transient pool a commit leaves the messages in memory, hidden from readers; see there.
Rule 4: a queue that cannot be written keeps its cells in memory and stops the store from taking more. The messages are
in the log and count as stored. So it is with the index: `key_feed`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from struct import Struct, calcsize
from typing import Final, NamedTuple
from zlib import crc32

from zlib_ng.zlib_ng import crc32 as crc32_long

from skyrocketmq.errors import DiskFull, StoreError
from skyrocketmq.hot import pack_key
from skyrocketmq.model.flags import BORN_HOST_V6, STORE_HOST_V6
from skyrocketmq.model.hosts import HOST_BYTES_V4
from skyrocketmq.model.offsets import LogOffset
from skyrocketmq.ports import Clock
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import CELL, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.key_feed import KeyFeed
from skyrocketmq.store.queue_extension import QueueExtensions
from skyrocketmq.store.record_shape import RecordShape
from skyrocketmq.store.reservations import Reservations
from skyrocketmq.store.statistics import StoreStatistics
from skyrocketmq.store.statuses import PutStatus, Refusal, RunningFlag, RunningState
from skyrocketmq.store.transient_pool import TransientPool
from skyrocketmq.wire.java import CRC_LONG_FROM_BYTES, CRC_MASK, body_crc
from skyrocketmq.wire.records import BLANK_BYTES, HEAD_BYTES, HEADS, MESSAGE_MAGIC

__all__ = ["REFUSED", "Appender", "Arrival"]

logger = logging.getLogger(__name__)

REFUSED: Final = -1
_UNQUEUED: Final = 0x4  # prepared and rolled back messages share this bit; they get no place in a queue
_ROLLBACK: Final = 0xC
_SPECIAL_FLAGS: Final = _UNQUEUED | BORN_HOST_V6 | STORE_HOST_V6
_TOTAL_EXTRA_BYTES: Final = 64 * 1024  # what a record may have beside the largest body
_cell = CELL.pack

# The head of a record of the common kind, with what is the same for a whole batch as one piece:
# | store time 8 | store host 8 | reconsumed 4 = 0 | prepared offset 8 = 0 |
_quick_head: Final = Struct(">iIIiiqqiq8s28si").pack
_stored_head: Final = Struct(">q8siq").pack
assert calcsize(">iIIiiqqiq8s28si") == HEAD_BYTES


class Arrival(NamedTuple):
    """A new message in a queue that somebody watches."""

    topic: str
    queue_id: int
    max_offset: int  # of the queue, with this message
    tags_code: int
    store_timestamp: int
    properties: bytes


class Appender:
    """The store's only way in. Called on the loop's thread."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: ConsumeQueues,
        key_feed: KeyFeed,
        state: RunningState,
        statistics: StoreStatistics,
        clock: Clock,
        store_host: bytes,
        message_bytes_max: int,
        pool: TransientPool | None = None,
        extensions: QueueExtensions | None = None,
        reservations: Reservations,
    ) -> None:
        self.now_ms = 0  # store time of the messages being added
        self.refusal: Refusal | None = None  # why the last `add` or `commit` failed
        self.failed_from = LogOffset(0)  # after a failed commit: messages from here on are not stored
        self.newest_ms = 0  # store time of the newest message in the log
        self.on_arrival: Callable[[list[Arrival]], None] = _nobody
        self.key_feed = key_feed
        self._log = log
        self._queues = queues
        self._state = state
        self._statistics = statistics
        self._clock = clock
        self._pool = pool
        self._extensions = extensions
        self._reservations = reservations
        self._position = int(log.max_offset)  # where the next record begins
        self._limit = log.limit
        self._pieces: list[bytes] = []
        self._keys: list[bytes] = []  # packed
        self._arrivals: list[Arrival] = []
        self._vouched: list[tuple[int, int]] = []  # where records begin and end that need a voucher
        self._count = 0
        self._has_failed = False  # so did the last write
        self._is_broken = False  # a write failed; adds are refused until the caller has learnt of it
        self.set_store_host(store_host)
        self.set_message_bytes_max(message_bytes_max)

    def set_store_host(self, host: bytes) -> None:
        """The broker's address, packed, as new records name it. It is known only once the port is bound."""
        self._store_host = host
        self._is_all_special = len(host) != HOST_BYTES_V4 or self._extensions is not None
        self._stored_ms = -1  # `begin` packs it anew
        self._stored = b""

    def set_message_bytes_max(self, message_bytes_max: int) -> None:
        """The largest body; may change at run time."""
        self._body_bytes_max = message_bytes_max

    @property
    def pool_bytes(self) -> int | None:
        """What is acknowledged but waits in the transient pool; None where there is no pool."""
        return None if self._pool is None else self._pool.byte_count

    def set_pool_pages(self, least_pages: int) -> None:
        """With so many pages the transient pool is written at once; may change at run time."""
        if self._pool is not None:
            self._pool.least_pages = least_pages

    def follow_log(self) -> None:
        """Start at the log's end, which recovery or a slave's copying has moved."""
        assert not self._pieces, "commit comes first"
        self._position = int(self._log.max_offset)
        self._limit = self._log.limit

    # ---------------------------------------------------------------------------------------------------- adding

    def begin(self) -> bool:
        """Take the time for the messages that follow; False, with `refusal`, if the store takes none now."""
        self.now_ms = now_ms = self._clock.now_ms()
        if now_ms != self._stored_ms:
            self._stored_ms = now_ms
            self._stored = _stored_head(now_ms, self._store_host, 0, 0)
        self.refusal = self._state.refusal
        return self.refusal is None

    def store_as(self, store_host: bytes, reconsume_times: int) -> None:
        """Let records that follow, up to the next `begin`, name this host of IPv4 and say how often they were consumed.

        It counts only for what `is_quick` says yes to.
        """
        self._stored = _stored_head(self.now_ms, store_host, reconsume_times, 0)
        self._stored_ms = -1  # `begin` packs it anew

    def is_quick(self, shape: RecordShape, sys_flag: int, body_bytes: int) -> bool:
        """Whether `add` takes such a message, from a host of IPv4, without further looks."""
        return not (
            sys_flag & _SPECIAL_FLAGS or shape.is_special or body_bytes > self._body_bytes_max or self._is_all_special
        )

    def add(
        self,
        queue: ConsumeQueue,
        shape: RecordShape,
        key: bytes,
        body: bytes,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int = 0,
        crc: int | None = None,
    ) -> int:
        """Add one message; returns its log offset, or `REFUSED` and sets `refusal`.

        Its queue offset is `queue.next_offset` as it was before the call. `key` is the unique id that the shape leaves
        open; `body` must not change before the commit; `crc` is its checksum, for whoever has just made it. Arguments
        go by position: this is called for every message.
        """
        body_bytes = len(body)
        if (
            sys_flag & _SPECIAL_FLAGS
            or shape.is_special
            or body_bytes > self._body_bytes_max
            or len(born_host) != HOST_BYTES_V4
            or reconsume_times
            or self._is_all_special
            or b"\0" in key
        ):
            return self.add_special(queue, shape, key, body, flag, sys_flag, born_ms, born_host, reconsume_times)
        total = shape.fixed_bytes + body_bytes
        position = self._position
        if position + total > self._limit:
            if not self._make_room(total):
                return REFUSED
            position = self._position
        if crc is None:
            crc = (crc32(body) if body_bytes < CRC_LONG_FROM_BYTES else crc32_long(body)) & CRC_MASK
        offset = queue.next_offset
        queue.next_offset = offset + 1
        if offset >= queue.extend_at:
            self._reservations.want(queue)
        self._pieces += (
            _quick_head(
                total,
                MESSAGE_MAGIC,
                crc,
                queue.queue_id,
                flag,
                offset,
                position,
                sys_flag,
                born_ms,
                born_host,
                self._stored,
                body_bytes,
            ),
            body,
            shape.middle,
            key,
            shape.after,
        )
        queue.tail += _cell(position, total, shape.tags_code)
        if not queue.is_dirty:
            self._queues.mark_dirty(queue)
        if queue.is_watched:
            self._note_arrival(queue, shape, key, shape.tags_code)
        if key:
            self._keys.append(pack_key(key, shape.topic.start, position, self.now_ms))
        if shape.keys:
            self._keys += [pack_key(other, shape.topic.start, position, self.now_ms) for other in shape.keys]
        self._position = position + total
        self._count += 1
        return position

    def add_special(
        self,
        queue: ConsumeQueue,
        shape: RecordShape,
        key: bytes,
        body: bytes,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        store_host: bytes | None = None,
    ) -> int:
        """The same for any message: IPv6 hosts, delayed, prepared, of a foreign store host, with NULs, or too large."""
        host = self._store_host if store_host is None else store_host
        total = self.record_bytes(shape, len(body), born_host, host)
        self.refusal = self._state.refusal or self.refusal_of(shape, len(body), total)
        if self.refusal is not None:
            return REFUSED
        if self._position + total > self._limit and not self._make_room(total):
            return REFUSED
        sys_flag &= ~(BORN_HOST_V6 | STORE_HOST_V6)
        sys_flag |= (len(born_host) != HOST_BYTES_V4) * BORN_HOST_V6 | (len(host) != HOST_BYTES_V4) * STORE_HOST_V6
        position = self._position
        is_queued = not sys_flag & _UNQUEUED
        offset = queue.next_offset if is_queued else 0
        head = HEADS[(sys_flag >> 4) & 3].pack(
            total,
            MESSAGE_MAGIC,
            body_crc(body),
            queue.queue_id,
            flag,
            offset,
            position,
            sys_flag,
            born_ms,
            born_host,
            self.now_ms,
            host,
            reconsume_times,
            prepared_offset,
            len(body),
        )
        self._pieces += (head, body, shape.middle, key, shape.after)
        if shape.has_nul or b"\0" in key:
            self._vouched.append((position, position + total))
        if is_queued:
            tags_code = shape.tags_code if shape.delay_ms is None else self.now_ms + shape.delay_ms
            cell_code = tags_code
            if self._extensions is not None and shape.delay_ms is None:
                properties = b"%b%b%b" % (shape.before, key, shape.after)
                cell_code = self._extensions.extend(queue, properties, tags_code, self.now_ms)
            queue.next_offset = offset + 1
            if offset >= queue.extend_at:
                self._reservations.want(queue)
            queue.tail += _cell(position, total, cell_code)
            self._queues.mark_dirty(queue)
            if queue.is_watched:
                self._note_arrival(queue, shape, key, tags_code)
        if sys_flag & _ROLLBACK != _ROLLBACK:
            start, now_ms = shape.topic.start, self.now_ms
            self._keys += [pack_key(each, start, position, now_ms) for each in (key, *shape.keys) if each]
        self._position = position + total
        self._count += 1
        return position

    def reserve(self, total_bytes: int) -> bool:
        """See to it that messages of so many bytes in all go into one file: a batch is stored whole or not at all.

        False, with `refusal`, if there is no such room.
        """
        if self._position + total_bytes <= self._limit:
            return True
        if total_bytes + BLANK_BYTES > self._log.file_bytes:
            self.refusal = Refusal(
                PutStatus.MESSAGE_ILLEGAL,
                f"the batch takes {total_bytes} bytes, a log file holds {self._log.file_bytes}: send fewer at once",
            )
            return False
        return self._make_room(total_bytes)

    def record_bytes(self, shape: RecordShape, body_bytes: int, born_host: bytes, store_host: bytes | None) -> int:
        """How long the record of a message will be."""
        store_host_bytes = len(self._store_host if store_host is None else store_host)
        return shape.fixed_bytes + body_bytes + len(born_host) + store_host_bytes - 2 * HOST_BYTES_V4

    def refusal_of(self, shape: RecordShape, body_bytes: int, total_bytes: int) -> Refusal | None:
        """Why a message cannot be stored, whatever the state of the store; None if it can."""
        if shape.refusal is not None:
            return shape.refusal
        body_max, file_max = self._body_bytes_max, self._log.file_bytes - BLANK_BYTES
        if body_bytes > body_max or total_bytes > body_max + _TOTAL_EXTRA_BYTES:
            text = f"the body takes {body_bytes} bytes, maxMessageSize allows {body_max}: compress or split the message"
            return Refusal(PutStatus.MESSAGE_ILLEGAL, text)
        if total_bytes > file_max:
            text = f"the message takes {total_bytes} bytes, a log file holds {file_max}: split the message"
            return Refusal(PutStatus.MESSAGE_ILLEGAL, text)
        return None

    def _note_arrival(self, queue: ConsumeQueue, shape: RecordShape, key: bytes, tags_code: int) -> None:
        properties = b"%b%b%b" % (shape.before, key, shape.after)
        self._arrivals.append(
            Arrival(queue.topic, queue.queue_id, queue.next_offset, tags_code, self.now_ms, properties)
        )

    # -------------------------------------------------------------------------------------------------- committing

    @property
    def has_pending(self) -> bool:
        """Whether messages were added that are not in the log yet."""
        return bool(self._pieces)

    def commit(self) -> bool:
        """Write what was added. False: messages from `failed_from` on are not stored, and `refusal` says why."""
        if self._pieces:
            self._write()
        was_broken, self._is_broken = self._is_broken, False
        if was_broken:
            self.follow_log()
        if self._arrivals and (self._pool is None or not self._pool.byte_count):
            self._tell_arrivals()  # also of what was stored before the failure
        return not was_broken

    def _tell_arrivals(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        failure = self.refusal, self.failed_from
        self.on_arrival(arrivals)
        self.refusal, self.failed_from = failure  # whoever listens may have put something himself

    def settle(self) -> bool:
        """Write what another's open batch has added so far, so that readers see it and `put` comes after it.

        False if that failed; whoever owns the batch learns it from its own `commit`.
        """
        if self._pieces:
            self._write()
        return not self._is_broken

    def _make_room(self, total: int) -> bool:
        """Go on in the next file, committing what belongs to this one; False, with `refusal`, if there is none."""
        if self._is_broken or (self._pieces and not self._write()) or not self._write_pool():
            self.refusal = self.refusal or self._state.refusal
            return False
        self.follow_log()
        if self._state.refusal is not None:  # also where a batch was begun without asking
            self.refusal = self._state.refusal
            return False
        if total + BLANK_BYTES > self._log.file_bytes:
            self.refusal = Refusal(
                PutStatus.MESSAGE_ILLEGAL,
                f"the message takes {total} bytes, a log file holds {self._log.file_bytes}",
            )
            return False
        try:
            self._log.make_room(total)
        except (StoreError, OSError) as error:
            self.refusal = _no_file(error)
            if self._state.raise_flag(RunningFlag.NO_LOG_FILE):
                logger.error("no next log file: messages are refused until there is one", extra={"error": str(error)})
            self._log.on_spare_wanted()  # whoever reserves files tries again, and lowers the flag
            return False
        self.follow_log()
        return True

    def _write(self) -> bool:
        log, first = self._log, self._log.max_offset
        pieces, self._pieces = self._pieces, []
        count, self._count = self._count, 0
        data = b"".join(pieces)
        if self._pool is not None:
            self._put_into_pool(self._pool, data, count)
            return True
        started = self._clock.monotonic()
        try:
            if first + len(data) != self._position:
                # Never seen, and never to be written: all that follows would lie elsewhere than queues and answers say.
                raise StoreError(f"records of {len(data)} bytes were to take {self._position - first}")
            if self._reservations.short:
                self._reservations.extend_now()
            log.append(data, self._vouched)
        except (StoreError, OSError) as error:
            self._take_back(first, error, count)
            return False
        if self._vouched:
            self._vouched = []
        self._has_failed = False
        self._statistics.put(count, log.max_offset - first, self._clock.monotonic() - started)
        self.newest_ms = self.now_ms
        if self._keys:
            keys, self._keys = self._keys, []
            self.key_feed.add(b"".join(keys))
        return True

    def _take_back(self, first: LogOffset, error: Exception, count: int) -> None:
        self._queues.take_back(first)
        self._keys = []
        self._vouched = []
        self._arrivals = [arrival for arrival in self._arrivals if not self._is_gone(arrival)]
        self._is_broken = True
        self.failed_from = first
        self.refusal = Refusal(
            PutStatus.SERVICE_NOT_AVAILABLE if isinstance(error, DiskFull) else PutStatus.UNKNOWN_ERROR,
            f"the log could not be written: {error}",
        )
        self._statistics.put_failed += count
        if not self._has_failed:  # a disk that fails for a while is reported once
            logger.error("append failed", extra={"log_offset": first, "count": count, "error": str(error)})
        self._has_failed = True
        self._position = int(first)
        self._limit = 0  # what is added now would be taken for stored: it all goes to `_make_room`, which refuses

    def _is_gone(self, arrival: Arrival) -> bool:
        queue = self._queues.find(arrival.topic, arrival.queue_id)
        return queue is None or arrival.max_offset > queue.max_offset

    # --------------------------------------------------------------------------------------------- transient pool

    def _put_into_pool(self, pool: TransientPool, data: bytes, count: int) -> None:
        keys, self._keys = self._keys, []
        pool.add(data, count, b"".join(keys), self.now_ms)
        self._queues.hide_from(self._log.max_offset)
        if pool.is_due(len(self._queues.dirty)):
            self._write_pool()

    def write_pool(self) -> bool:
        """Write what waits in the transient pool, and show it to readers. False if that failed: it waits on."""
        is_written = self._write_pool()
        if is_written and self._arrivals and not self._pieces:
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
            self._log.append(pool.data(), self._vouched)
        except (StoreError, OSError) as error:
            if self._state.raise_flag(RunningFlag.POOL_WRITE_ERROR, str(error)):
                logger.error("acknowledged messages not written yet", extra={"count": pool.count, "error": str(error)})
            return False
        if self._state.lower_flag(RunningFlag.POOL_WRITE_ERROR):
            logger.info("acknowledged messages are written now", extra={"count": pool.count})
        self._vouched = []
        self._statistics.put(pool.count, pool.byte_count, self._clock.monotonic() - started)
        self.newest_ms = pool.newest_ms
        self._queues.show_all()
        self.key_feed.add(pool.keys)
        pool.clear()
        return True


def _no_file(error: Exception) -> Refusal:
    if isinstance(error, DiskFull):
        return Refusal(PutStatus.SERVICE_NOT_AVAILABLE, f"the disk is full: {error}")
    return Refusal(PutStatus.CREATE_MAPEDFILE_FAILED, f"the next log file could not be made: {error}")


def _nobody(arrivals: list[Arrival]) -> None:
    """Nobody waits for messages."""
