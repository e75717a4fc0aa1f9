"""The compiled form of `record_batch`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memchr, memcmp, memcpy
from cython.cimports.skyrocketmq.hot._hashes import hash_of
from cython.cimports.skyrocketmq.hot.big_endian import put_int32, put_int64, put_uint16

from skyrocketmq.hot import record_batch as plain
from skyrocketmq.hot.checksum import CRC_LONG_FROM_BYTES, crc32_long, crc32_short
from skyrocketmq.hot.layout import (
    CELL_BYTES,
    CELL_LOG_OFFSET_AT,
    CELL_SIZE_AT,
    CELL_TAGS_CODE_AT,
    KEY_BYTES,
    KEY_HASH_AT,
    KEY_LOG_OFFSET_AT,
    KEY_STORE_TIME_AT,
    KEYS_SEPARATOR,
    NAME_END,
    PAIR_END,
    RECORD_BODY_LENGTH_AT,
    RECORD_BORN_HOST_AT,
    RECORD_BORN_IPV6,
    RECORD_BORN_TIME_AT,
    RECORD_BYTES_MIN,
    RECORD_CRC_AT,
    RECORD_CRC_MASK,
    RECORD_FLAG_AT,
    RECORD_HEAD_BYTES,
    RECORD_HOST_BYTES,
    RECORD_LOG_OFFSET_AT,
    RECORD_MAGIC,
    RECORD_MAGIC_AT,
    RECORD_PREPARED_AT,
    RECORD_PROPERTIES_BYTES_MAX,
    RECORD_QUEUE_ID_AT,
    RECORD_QUEUE_OFFSET_AT,
    RECORD_RECONSUMED_AT,
    RECORD_ROLLED_BACK,
    RECORD_STORE_HOST_AT,
    RECORD_STORE_IPV6,
    RECORD_STORE_TIME_AT,
    RECORD_SYS_FLAG_AT,
    RECORD_TOTAL_AT,
    RECORD_UNQUEUED,
)

__all__ = ["QueueTail", "RecordBatch"]

CRC_LONG_FROM = CRC_LONG_FROM_BYTES
FULL = plain.FULL
KEYS_MAX = plain.KEYS_MAX
LONG_PROPERTIES = plain.LONG_PROPERTIES
MANY_KEYS = plain.MANY_KEYS
NEVER = plain.NEVER


class QueueTail:
    def __init__(self, topic_bytes, queue_id):
        self.topic_bytes = topic_bytes
        self.key_start = hash_of(topic_bytes + b"#", 0)
        self.queue_id = queue_id
        self.next_offset = 0
        self.extend_at = NEVER
        self.is_watched = False
        self.is_touched = False
        self.pending = bytearray()


class Growing:
    def __dealloc__(self):
        free(self.data)

    def reserve(self, more):
        room: cython.Py_ssize_t
        grown: cython.p_uchar
        if self.room - self.used < more:
            room = 2 * self.room + more
            grown = cython.cast(cython.p_uchar, realloc(self.data, room))
            if grown == cython.NULL:
                raise MemoryError(f"no {room} bytes for records")
            self.data = grown
            self.room = room
        return self.data + self.used

    def take(self):
        taken: bytes = PyBytes_FromStringAndSize(cython.cast(cython.p_char, self.data), self.used)
        self.used = 0
        if self.room > 8388608:  # of a rare large message: not kept for good
            free(self.data)
            self.data = cython.NULL
            self.room = 0
        return taken


class RecordBatch:
    def __init__(self):
        self.touched = []
        self.crossed = []
        self.vouched = []
        self.arrivals = []
        self.count = 0
        self.key_count = 0
        self.position = 0
        self._records = Growing()
        self._keys = Growing()
        self._now_ms = 0
        self._limit = 0

    def begin(self, now_ms: int64_t, position: int64_t, limit: int64_t):
        self._now_ms = now_ms
        self.position = position
        self._limit = limit

    def add(
        self,
        queue,
        properties: bytes,
        body: bytes,
        flag: int64_t,
        sys_flag: int64_t,
        born_ms: int64_t,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int64_t = 0,
        prepared_offset: int64_t = 0,
        cell_code=None,
    ):
        code: int64_t = 0 if cell_code is None else cell_code
        return self.put(
            queue,
            cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(properties)),
            len(properties),
            cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(body)),
            len(body),
            flag,
            sys_flag,
            born_ms,
            born_host,
            store_host,
            reconsume_times,
            prepared_offset,
            cell_code is not None,
            code,
        )

    def put(
        self,
        queue,
        properties,
        properties_bytes,
        body,
        body_bytes,
        flag,
        sys_flag,
        born_ms,
        born_host,
        store_host,
        reconsume_times,
        prepared_offset,
        has_cell_code,
        cell_code,
    ):
        found = cython.declare(Scanned)
        topic: bytes = queue.topic_bytes
        topic_bytes: cython.Py_ssize_t = len(topic)
        born_bytes: cython.Py_ssize_t = len(born_host)
        store_bytes: cython.Py_ssize_t = len(store_host)
        position: int64_t = self.position
        total: int64_t
        is_queued: cython.bint
        code: int64_t
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        record: cython.p_uchar
        if properties_bytes > RECORD_PROPERTIES_BYTES_MAX:
            return LONG_PROPERTIES
        scan(properties, properties_bytes, cython.address(found))
        if found.key_count > KEYS_MAX:
            return MANY_KEYS
        total = RECORD_BYTES_MIN + body_bytes + topic_bytes + properties_bytes
        total += born_bytes + store_bytes - 2 * RECORD_HOST_BYTES
        if position + total > self._limit:
            return FULL
        code = 0
        if has_cell_code:
            code = cell_code
        elif found.tags_bytes:
            code = cython.cast(int32_t, hash_text(properties + found.tags_at, found.tags_bytes, 0))
        crc: int64_t = crc_of(body, body_bytes)
        sys_flag &= ~(RECORD_BORN_IPV6 | RECORD_STORE_IPV6)
        if born_bytes > RECORD_HOST_BYTES:
            sys_flag |= RECORD_BORN_IPV6
        if store_bytes > RECORD_HOST_BYTES:
            sys_flag |= RECORD_STORE_IPV6
        is_queued = not sys_flag & RECORD_UNQUEUED
        # The whole record was reserved, so every offset below lies within it.
        record = self._records.reserve(total)
        put_int32(record, RECORD_TOTAL_AT, total)
        put_int32(record, RECORD_MAGIC_AT, RECORD_MAGIC)
        put_int32(record, RECORD_CRC_AT, crc)
        put_int32(record, RECORD_QUEUE_ID_AT, queue.queue_id)
        put_int32(record, RECORD_FLAG_AT, flag)
        put_int64(record, RECORD_QUEUE_OFFSET_AT, queue.next_offset if is_queued else 0)
        put_int64(record, RECORD_LOG_OFFSET_AT, position)
        put_int32(record, RECORD_SYS_FLAG_AT, sys_flag)
        put_int64(record, RECORD_BORN_TIME_AT, born_ms)
        memcpy(record + RECORD_BORN_HOST_AT, PyBytes_AS_STRING(born_host), born_bytes)
        at = born_bytes - RECORD_HOST_BYTES  # by which an IPv6 host moves all that follows it
        put_int64(record, RECORD_STORE_TIME_AT + at, self._now_ms)
        memcpy(record + RECORD_STORE_HOST_AT + at, PyBytes_AS_STRING(store_host), store_bytes)
        at += store_bytes - RECORD_HOST_BYTES
        put_int32(record, RECORD_RECONSUMED_AT + at, reconsume_times)
        put_int64(record, RECORD_PREPARED_AT + at, prepared_offset)
        put_int32(record, RECORD_BODY_LENGTH_AT + at, body_bytes)
        at += RECORD_HEAD_BYTES
        memcpy(record + at, body, body_bytes)
        at += body_bytes
        record[at] = cython.cast(cython.uchar, topic_bytes)
        memcpy(record + at + 1, PyBytes_AS_STRING(topic), topic_bytes)
        at += 1 + topic_bytes
        put_uint16(record, at, cython.cast(uint32_t, properties_bytes))
        memcpy(record + at + 2, properties, properties_bytes)
        self._records.used += total
        if properties_bytes and memchr(properties, 0, properties_bytes) != cython.NULL:
            self.vouched.append((position, position + total))
        if is_queued:
            self._put_cell(queue, position, total, code)
            if queue.is_watched:
                text: bytes = PyBytes_FromStringAndSize(cython.cast(cython.p_char, properties), properties_bytes)
                self.arrivals.append((queue, queue.next_offset, code, text))
        if sys_flag & RECORD_ROLLED_BACK != RECORD_ROLLED_BACK:
            if found.unique_bytes:
                self._put_key(queue, properties + found.unique_at, found.unique_bytes, position)
            at = found.keys_at
            end = found.keys_at + found.keys_bytes
            while at < end:
                begin: cython.Py_ssize_t = at
                while at < end and properties[at] != KEYS_SEPARATOR:
                    at += 1
                if at > begin:
                    self._put_key(queue, properties + begin, at - begin, position)
                at += 1
        self.position = position + total
        self.count += 1
        return position

    def _put_cell(self, queue, position, total, code):
        offset: int64_t = queue.next_offset
        used: cython.Py_ssize_t = PyByteArray_GET_SIZE(queue.pending)
        cell: cython.p_uchar
        PyByteArray_Resize(queue.pending, used + CELL_BYTES)
        cell = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(queue.pending)) + used
        put_int64(cell, CELL_LOG_OFFSET_AT, position)
        put_int32(cell, CELL_SIZE_AT, total)
        put_int64(cell, CELL_TAGS_CODE_AT, code)
        queue.next_offset = offset + 1
        if not queue.is_touched:
            queue.is_touched = True
            self.touched.append(queue)
        if offset >= queue.extend_at:
            queue.extend_at = NEVER
            self.crossed.append(queue)
        return 0

    def _put_key(self, queue, key, key_bytes, position):
        value: int64_t = cython.cast(int32_t, hash_text(key, key_bytes, cython.cast(uint32_t, queue.key_start)))
        entry: cython.p_uchar = self._keys.reserve(KEY_BYTES)
        put_int32(entry, KEY_HASH_AT, (-value if value < 0 else value) & 0x7FFFFFFF)
        put_int64(entry, KEY_LOG_OFFSET_AT, position)
        put_int64(entry, KEY_STORE_TIME_AT, self._now_ms)
        self._keys.used += KEY_BYTES
        self.key_count += 1
        return 0

    def take_records(self):
        self.count = 0
        return self._records.take()

    def take_keys(self):
        self.key_count = 0
        return self._keys.take()


def scan(text, size, found):
    at: cython.Py_ssize_t = 0
    name_end: cython.Py_ssize_t
    end: cython.Py_ssize_t
    mark: cython.p_const_uchar
    found.tags_bytes = found.unique_bytes = found.keys_bytes = found.key_count = 0
    found.tags_at = found.unique_at = found.keys_at = 0
    while at < size:
        mark = cython.cast(cython.p_const_uchar, memchr(text + at, PAIR_END, size - at))
        end = size if mark == cython.NULL else mark - text
        mark = cython.cast(cython.p_const_uchar, memchr(text + at, NAME_END, end - at))
        if mark != cython.NULL:
            name_end = mark - text
            if end - name_end > 1:
                if name_end - at == 4 and memcmp(text + at, b"TAGS", 4) == 0:
                    found.tags_at = name_end + 1
                    found.tags_bytes = end - name_end - 1
                elif name_end - at == 4 and memcmp(text + at, b"KEYS", 4) == 0:
                    found.keys_at = name_end + 1
                    found.keys_bytes = end - name_end - 1
                elif name_end - at == 8 and memcmp(text + at, b"UNIQ_KEY", 8) == 0:
                    found.unique_at = name_end + 1
                    found.unique_bytes = end - name_end - 1
        at = end + 1
    if found.keys_bytes:
        found.key_count = count_keys(text + found.keys_at, found.keys_bytes)


def count_keys(text, size):
    count: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    for at in range(size):
        if text[at] != KEYS_SEPARATOR and (at + 1 == size or text[at + 1] == KEYS_SEPARATOR):
            count += 1
    return count


def hash_text(text, size, start):
    value: uint32_t = start
    at: cython.Py_ssize_t
    for at in range(size):
        if text[at] >= 0x80:
            return hash_of(PyBytes_FromStringAndSize(cython.cast(cython.p_char, text), size), start)
        value = value * 31 + text[at]
    return value


def crc_of(body, size):
    data: bytes = PyBytes_FromStringAndSize(cython.cast(cython.p_char, body), size)
    crc: int64_t = crc32_short(data) if size < CRC_LONG_FROM else crc32_long(data)
    return crc & RECORD_CRC_MASK
