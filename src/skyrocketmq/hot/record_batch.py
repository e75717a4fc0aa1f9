"""Messages into records, queue cells and index keys: everything that is stored for a message, made in memory.

Cost: 0.35 us a message of 1 KB compiled, 6 us in plain Python (`python -m benchmarks hot`).

    batch.begin(now_ms, position, limit)        # where in the log the next record will lie, and where its file ends
    log_offset = batch.add(queue, properties, body, ...)
    batch.take_records(), batch.take_keys()     # for the log, and for the index
    batch.touched, batch.crossed, batch.vouched, batch.arrivals

Rule 1: nothing is written here, and no reader sees anything of it. The cells wait in `pending` of their queues; the
caller shows them when the log has the records, or drops them when it could not take them.
Rule 2: a record never spans two files: what does not fit before `limit` is answered with `FULL`, and nothing changes.
Rule 3: prepared and rolled back messages have no place in a queue; rolled back ones are not indexed either.
Rule 4: of properties that occur twice the last counts; those without a name or a value count as not there.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from skyrocketmq.hot.checksum import body_crc
from skyrocketmq.hot.hashes import text_hash
from skyrocketmq.hot.index_entries import pack_key
from skyrocketmq.hot.layout import (
    NAME_END,
    PAIR_END,
    RECORD_BORN_IPV6,
    RECORD_BYTES_MIN,
    RECORD_HEAD_FORMATS,
    RECORD_HOST_BYTES,
    RECORD_MAGIC,
    RECORD_PROPERTIES_BYTES_MAX,
    RECORD_ROLLED_BACK,
    RECORD_STORE_IPV6,
    RECORD_UNQUEUED,
)

__all__ = ["QueueTail", "RecordBatch"]

FULL: Final = -1  # answers of `add` in the place of a log offset
LONG_PROPERTIES: Final = -2
MANY_KEYS: Final = -3

KEYS_MAX: Final = 1_024  # of one message; each takes a fraction of a microsecond and 20 bytes of the index
NEVER: Final = 1 << 62  # a queue offset that is never reached

_CELL = Struct(">qiq")
_PAIR_END = bytes([PAIR_END])
_NAME_END = bytes([NAME_END])
_HEADS = tuple(Struct(text) for text in RECORD_HEAD_FORMATS)


class QueueTail:
    """The end of a consume queue, as far as adding messages needs it."""

    __slots__ = (
        "extend_at",
        "is_touched",
        "is_watched",
        "key_start",
        "next_offset",
        "pending",
        "queue_id",
        "topic_bytes",
    )

    def __init__(self, topic_bytes: bytes, queue_id: int) -> None:
        self.topic_bytes = topic_bytes
        self.key_start = text_hash(topic_bytes + b"#")  # where the hash of each key goes on
        self.queue_id = queue_id
        self.next_offset = 0  # of the message that is added next
        self.extend_at = NEVER  # an offset from here on has to be reserved first
        self.is_watched = False  # somebody waits for the next message
        self.is_touched = False  # it has cells that no reader sees yet
        self.pending = bytearray()  # those cells


class RecordBatch:
    """The records of messages that are stored together. One is enough for a store: it begins again and again."""

    def __init__(self) -> None:
        self.touched: list[QueueTail] = []  # queues with pending cells
        self.crossed: list[QueueTail] = []  # queues that gave out `extend_at`
        self.vouched: list[tuple[int, int]] = []  # where records with NULs in them begin and end
        self.arrivals: list[
            tuple[QueueTail, int, int, bytes]
        ] = []  # (queue, its end, tags code, properties) if watched
        self.count = 0  # of records since `begin` or `take_records`
        self.key_count = 0
        self.position = 0
        self._records: list[bytes] = []
        self._keys: list[bytes] = []
        self._now_ms = 0
        self._limit = 0

    def begin(self, now_ms: int, position: int, limit: int) -> None:
        """Go on with records of this store time, the next of which lies at `position`."""
        self._now_ms = now_ms
        self.position = position
        self._limit = limit

    def add(
        self,
        queue: QueueTail,
        properties: bytes,
        body: bytes,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        cell_code: int | None = None,
    ) -> int:
        """Add one message: its log offset, or `FULL`, `LONG_PROPERTIES` or `MANY_KEYS`, and then nothing has changed.

        Its queue offset is the queue's `next_offset` before the call. `cell_code` is what the cell holds where that is
        not the hash of the tags. Hosts are packed; their lengths tell the kinds of their addresses.
        """
        total = RECORD_BYTES_MIN + len(body) + len(queue.topic_bytes) + len(properties)
        total += len(born_host) + len(store_host) - 2 * RECORD_HOST_BYTES
        position = self.position
        if len(properties) > RECORD_PROPERTIES_BYTES_MAX:
            return LONG_PROPERTIES
        tags_code, unique_id, keys = scan_properties(properties)
        if len(keys) > KEYS_MAX:
            return MANY_KEYS
        if position + total > self._limit:
            return FULL
        sys_flag &= ~(RECORD_BORN_IPV6 | RECORD_STORE_IPV6)
        sys_flag |= RECORD_BORN_IPV6 * (len(born_host) > RECORD_HOST_BYTES)
        sys_flag |= RECORD_STORE_IPV6 * (len(store_host) > RECORD_HOST_BYTES)
        is_queued = not sys_flag & RECORD_UNQUEUED
        hosts = 2 * (len(store_host) > RECORD_HOST_BYTES) + (len(born_host) > RECORD_HOST_BYTES)
        head = _HEADS[hosts].pack(
            total,
            RECORD_MAGIC,
            body_crc(body),
            queue.queue_id,
            flag,
            queue.next_offset if is_queued else 0,
            position,
            sys_flag,
            born_ms,
            born_host,
            self._now_ms,
            store_host,
            reconsume_times,
            prepared_offset,
            len(body),
        )
        topic = queue.topic_bytes
        self._records += (head, body, b"%c%b%b" % (len(topic), topic, len(properties).to_bytes(2, "big")), properties)
        if b"\0" in properties:
            self.vouched.append((position, position + total))
        if is_queued:
            code = tags_code if cell_code is None else cell_code
            self._put_cell(queue, position, total, code)
            if queue.is_watched:
                self.arrivals.append((queue, queue.next_offset, code, properties))
        if sys_flag & RECORD_ROLLED_BACK != RECORD_ROLLED_BACK:
            keys = [unique_id, *keys] if unique_id else keys
            self._keys += [pack_key(key, queue.key_start, position, self._now_ms) for key in keys]
            self.key_count += len(keys)
        self.position = position + total
        self.count += 1
        return position

    def _put_cell(self, queue: QueueTail, position: int, total: int, code: int) -> None:
        offset = queue.next_offset
        queue.next_offset = offset + 1
        queue.pending += _CELL.pack(position, total, code)
        if not queue.is_touched:
            queue.is_touched = True
            self.touched.append(queue)
        if offset >= queue.extend_at:
            queue.extend_at = NEVER  # once is enough: the caller looks again when all are numbered
            self.crossed.append(queue)

    def take_records(self) -> bytes:
        """The records since they were last taken, as the log will have them."""
        records = b"".join(self._records)
        self._records.clear()
        self.count = 0
        return records

    def take_keys(self) -> bytes:
        """The keys of those records, packed as `hot.pack_key` does."""
        keys = b"".join(self._keys)
        self._keys.clear()
        self.key_count = 0
        return keys


def scan_properties(properties: bytes) -> tuple[int, bytes, list[bytes]]:
    """What a queue's cell holds of the tags (0 for none), the unique id (empty for none), and the other keys."""
    pairs = {}
    for pair in properties.split(_PAIR_END):
        name, _, value = pair.partition(_NAME_END)
        if name and value:
            pairs[name] = value
    tags = pairs.get(b"TAGS")
    keys = [key for key in pairs.get(b"KEYS", b"").split(b" ") if key]
    return text_hash(tags) if tags else 0, pairs.get(b"UNIQ_KEY", b""), keys
