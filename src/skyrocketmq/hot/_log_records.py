"""The compiled form of `log_records`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_READ,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr, memcmp
from cython.cimports.skyrocketmq.hot._hashes import hash_of
from cython.cimports.skyrocketmq.hot.big_endian import (
    int32_at,
    int64_at,
    put_int32,
    put_int64,
    uint16_at,
    uint32_at,
)
from cython.cimports.skyrocketmq.hot.record_parts import Parts, Properties, Text

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot import log_records as plain
from skyrocketmq.hot.checksum import CRC_LONG_FROM_BYTES, crc32_long, crc32_short
from skyrocketmq.hot.layout import (
    CELL_BYTES,
    CELL_LOG_OFFSET_AT,
    CELL_SIZE_AT,
    CELL_TAGS_CODE_AT,
    DELAY_PROPERTY,
    KEY_BYTES,
    KEY_HASH_AT,
    KEY_LOG_OFFSET_AT,
    KEY_STORE_TIME_AT,
    KEYS_PROPERTY,
    KEYS_SEPARATOR,
    NAME_END,
    PAIR_END,
    RECORD_BODY_LENGTH_AT,
    RECORD_BORN_IPV6,
    RECORD_BYTES_MIN,
    RECORD_CRC_AT,
    RECORD_CRC_MASK,
    RECORD_HEAD_BYTES,
    RECORD_IPV6_BYTES,
    RECORD_LOG_OFFSET_AT,
    RECORD_MAGIC,
    RECORD_MAGIC_AT,
    RECORD_PREPARED_AT,
    RECORD_PROPERTIES_BYTES_MAX,
    RECORD_PROPERTIES_LENGTH_BYTES,
    RECORD_QUEUE_ID_AT,
    RECORD_QUEUE_OFFSET_AT,
    RECORD_ROLLED_BACK,
    RECORD_STORE_IPV6,
    RECORD_STORE_TIME_AT,
    RECORD_SYS_FLAG_AT,
    RECORD_TOPIC_BYTES_MAX,
    RECORD_TOPIC_LENGTH_BYTES,
    RECORD_TOTAL_AT,
    RECORD_TRANSACTION_BITS,
    RECORD_UNQUEUED,
    SCHEDULE_TOPIC,
    TAGS_PROPERTY,
    UNIQ_KEY_PROPERTY,
    UNKNOWN_LEVEL_MS,
)
from skyrocketmq.hot.log_records import ALWAYS, DerivedEntries, QueueRun, ScannedRecord

__all__ = ["check_records", "derive_entries", "scan_record"]

LAST_OFFSET = ALWAYS
new_tuple = tuple.__new__  # half of what the name of a named tuple costs when it is called
CRC_LONG_BYTES = CRC_LONG_FROM_BYTES


def scan_record(data, at: int64_t, end: int64_t, *, check_crc: cython.bint = True):
    record: cython.p_const_uchar
    parts = cython.declare(Parts)
    buffer = cython.declare(Py_buffer)
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        if 0 <= at <= end <= buffer.len:
            record = cython.cast(cython.p_const_uchar, buffer.buf) + at
            if _is_whole(record, end - at, cython.address(parts)) and (
                not check_crc or _matches_crc(record, cython.address(parts))
            ):
                return new_tuple(
                    ScannedRecord,
                    (
                        parts.total,
                        PyBytes_FromStringAndSize(
                            cython.cast(cython.p_char, record + parts.topic_at), parts.topic_bytes
                        ),
                        int32_at(record, RECORD_QUEUE_ID_AT),
                        int64_at(record, RECORD_QUEUE_OFFSET_AT),
                        int64_at(record, RECORD_LOG_OFFSET_AT),
                        parts.sys_flag,
                        int64_at(record, parts.store_time_at),
                        int64_at(record, parts.prepared_at),
                        PyBytes_FromStringAndSize(
                            cython.cast(cython.p_char, record + parts.properties_at), parts.properties_bytes
                        ),
                    ),
                )
    finally:
        PyBuffer_Release(cython.address(buffer))
    return plain.scan_record(data, at, end, check_crc=check_crc)  # a blank record, or it says what is wrong


def check_records(
    data,
    at: int64_t,
    end: int64_t,
    *,
    log_offset: int64_t,
    stop: int64_t = LAST_OFFSET,
    check_crc: cython.bint = False,
    nul_from: int64_t = LAST_OFFSET,
):
    record: cython.p_const_uchar
    parts = cython.declare(Parts)
    buffer = cython.declare(Py_buffer)
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        if at < 0 or end > buffer.len:
            return at
        while log_offset < stop:
            record = cython.cast(cython.p_const_uchar, buffer.buf) + at
            if (
                not _is_whole(record, end - at, cython.address(parts))
                or int64_at(record, RECORD_LOG_OFFSET_AT) != log_offset
                or (check_crc and not _matches_crc(record, cython.address(parts)))
            ):
                break
            if log_offset >= nul_from and (
                memchr(record + parts.topic_at, 0, parts.topic_bytes)
                or memchr(record + parts.properties_at, 0, parts.properties_bytes)
            ):
                break
            at += parts.total
            if log_offset > LAST_OFFSET - parts.total:
                break
            log_offset += parts.total
        return at
    finally:
        PyBuffer_Release(cython.address(buffer))


def derive_entries(data, at: int64_t, end: int64_t, *, topics, delay_levels_ms):
    runs: list = []
    open_runs: dict = {}
    run: OpenRun = None
    packed: bytearray = bytearray()
    count: int64_t = 0
    last_offset: int64_t = -1
    last_store_ms: int64_t = 0
    offset: int64_t
    record: cython.p_const_uchar
    parts = cython.declare(Parts)
    found = cython.declare(Properties)
    buffer = cython.declare(Py_buffer)
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        while at < end:
            record = cython.cast(cython.p_const_uchar, buffer.buf) + at
            if at < 0 or end > buffer.len or not _is_whole(record, end - at, cython.address(parts)):
                plain.scan_record(data, at, end, check_crc=False)  # says what is wrong
                raise ProtocolError(f"the record at {at} is the blank end of a log file")
            at += parts.total
            count += 1
            last_offset = int64_at(record, RECORD_LOG_OFFSET_AT)
            last_store_ms = int64_at(record, parts.store_time_at)
            if (
                run is None
                or run.queue_id != int32_at(record, RECORD_QUEUE_ID_AT)
                or PyBytes_GET_SIZE(run.topic) != parts.topic_bytes
                or memcmp(PyBytes_AS_STRING(run.topic), record + parts.topic_at, parts.topic_bytes) != 0
            ):
                run = _run_of(open_runs, record, cython.address(parts), topics)
            if not run.has_start:
                continue
            _read_properties(record + parts.properties_at, parts.properties_bytes, cython.address(found))
            if parts.sys_flag & RECORD_TRANSACTION_BITS != RECORD_ROLLED_BACK:
                _add_keys(packed, record, cython.address(parts), cython.address(found), run.start)
            offset = int64_at(record, RECORD_QUEUE_OFFSET_AT)
            if parts.sys_flag & RECORD_UNQUEUED or run.queue_id < 0 or offset < 0:
                continue
            if offset != run.next:
                run.cells = bytearray()
                runs.append(new_tuple(QueueRun, (run.topic, run.queue_id, offset, run.cells)))
            _add_cell(
                run.cells,
                last_offset,
                parts.total,
                _tags_code(cython.address(found), run.is_schedule, last_store_ms, delay_levels_ms),
            )
            run.next = offset + 1 if offset < LAST_OFFSET else -1
    finally:
        PyBuffer_Release(cython.address(buffer))
    return DerivedEntries(runs, bytes(packed), count, last_offset, last_store_ms)


# ------------------------------------------------------------------------------------------------------------- records


def _is_whole(record, left, parts):
    """Find the parts of the record that begins here, of which there are `left` bytes at the most; False if none does.

    Every length is measured against the record's end, and that against what is left, before it is used.
    """
    if left < RECORD_BYTES_MIN or uint32_at(record, RECORD_MAGIC_AT) != RECORD_MAGIC:
        return False
    parts.total = int32_at(record, RECORD_TOTAL_AT)
    parts.sys_flag = int32_at(record, RECORD_SYS_FLAG_AT)
    if parts.total > left:
        return False
    moved: cython.Py_ssize_t = RECORD_IPV6_BYTES if parts.sys_flag & RECORD_BORN_IPV6 else 0
    parts.store_time_at = RECORD_STORE_TIME_AT + moved
    if parts.sys_flag & RECORD_STORE_IPV6:
        moved += RECORD_IPV6_BYTES
    parts.prepared_at = RECORD_PREPARED_AT + moved
    parts.body_at = RECORD_HEAD_BYTES + moved
    if parts.total < RECORD_BYTES_MIN + moved:
        return False
    parts.body_bytes = int32_at(record, RECORD_BODY_LENGTH_AT + moved)
    parts.topic_at = parts.body_at + parts.body_bytes + RECORD_TOPIC_LENGTH_BYTES
    if parts.body_bytes < 0 or parts.topic_at + RECORD_PROPERTIES_LENGTH_BYTES > parts.total:
        return False
    parts.topic_bytes = record[parts.topic_at - RECORD_TOPIC_LENGTH_BYTES]
    parts.properties_at = parts.topic_at + parts.topic_bytes + RECORD_PROPERTIES_LENGTH_BYTES
    if parts.topic_bytes > RECORD_TOPIC_BYTES_MAX or parts.properties_at > parts.total:
        return False
    parts.properties_bytes = uint16_at(record, parts.properties_at - RECORD_PROPERTIES_LENGTH_BYTES)
    return (
        parts.properties_bytes <= RECORD_PROPERTIES_BYTES_MAX
        and parts.properties_at + parts.properties_bytes == parts.total
    )


def _matches_crc(record, parts):
    body = PyMemoryView_FromMemory(cython.cast(cython.p_char, record + parts.body_at), parts.body_bytes, PyBUF_READ)
    crc: int64_t = crc32_short(body) if parts.body_bytes < CRC_LONG_BYTES else crc32_long(body)
    return crc & RECORD_CRC_MASK == uint32_at(record, RECORD_CRC_AT)


def _run_of(runs, record, parts, topics):
    """What is known of the record's queue."""
    topic: bytes = PyBytes_FromStringAndSize(cython.cast(cython.p_char, record + parts.topic_at), parts.topic_bytes)
    queue_id: int64_t = int32_at(record, RECORD_QUEUE_ID_AT)
    place = (topic, queue_id)
    run: OpenRun = runs.get(place)
    if run is None:
        run = runs[place] = OpenRun()
        run.topic = topic
        run.queue_id = queue_id
        run.next = -1
        run.is_schedule = topic == SCHEDULE_TOPIC
        start = topics[topic]
        run.has_start = start is not None
        run.start = cython.cast(uint32_t, cython.cast(int64_t, start)) if run.has_start else 0
    return run


class OpenRun:
    pass


# ---------------------------------------------------------------------------------------------------------- properties


def _read_properties(text, size, found):
    """Find the values that queues and index want; of each name the last that is not empty."""
    found.unique_key.size = found.keys.size = found.tags.size = found.delay.size = 0
    end: cython.p_const_uchar = text + size
    pair_end: cython.p_const_uchar
    name_end: cython.p_const_uchar
    name_bytes: cython.Py_ssize_t
    wanted: cython.pointer(Text)
    while text < end:
        pair_end = cython.cast(cython.p_const_uchar, memchr(text, PAIR_END, end - text))
        if pair_end == cython.NULL:
            pair_end = end
        name_end = cython.cast(cython.p_const_uchar, memchr(text, NAME_END, pair_end - text))
        if name_end != cython.NULL and pair_end - name_end > 1:
            name_bytes = name_end - text
            wanted = cython.NULL
            if _is_named(text, name_bytes, UNIQ_KEY_PROPERTY):
                wanted = cython.address(found.unique_key)
            elif _is_named(text, name_bytes, TAGS_PROPERTY):
                wanted = cython.address(found.tags)
            elif _is_named(text, name_bytes, KEYS_PROPERTY):
                wanted = cython.address(found.keys)
            elif _is_named(text, name_bytes, DELAY_PROPERTY):
                wanted = cython.address(found.delay)
            if wanted != cython.NULL:
                wanted.at = name_end + 1
                wanted.size = pair_end - name_end - 1
        text = pair_end + 1


def _is_named(name, size, wanted):
    return PyBytes_GET_SIZE(wanted) == size and memcmp(name, PyBytes_AS_STRING(wanted), size) == 0


def _add_keys(packed, record, parts, found, start):
    log_offset: int64_t = int64_at(record, RECORD_LOG_OFFSET_AT)
    store_ms: int64_t = int64_at(record, parts.store_time_at)
    if found.unique_key.size:
        _add_key(packed, found.unique_key.at, found.unique_key.size, start, log_offset, store_ms)
    if not found.keys.size:
        return 0
    key: cython.p_const_uchar = found.keys.at
    end: cython.p_const_uchar = key + found.keys.size
    key_end: cython.p_const_uchar
    while key < end:
        key_end = cython.cast(cython.p_const_uchar, memchr(key, KEYS_SEPARATOR, end - key))
        if key_end == cython.NULL:
            key_end = end
        if key_end > key:
            _add_key(packed, key, key_end - key, start, log_offset, store_ms)
        key = key_end + 1
    return 0


def _add_key(packed, text, size, start, log_offset, store_ms):
    value: int64_t = cython.cast(int32_t, _hash_at(text, size, start))
    at: cython.Py_ssize_t = PyByteArray_GET_SIZE(packed)
    PyByteArray_Resize(packed, at + KEY_BYTES)
    key: cython.p_uchar = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(packed)) + at
    put_int32(key, KEY_HASH_AT, (-value if value < 0 else value) & 0x7FFFFFFF)
    put_int64(key, KEY_LOG_OFFSET_AT, log_offset)
    put_int64(key, KEY_STORE_TIME_AT, store_ms)
    return 0


def _tags_code(found, is_schedule, store_ms, delay_levels_ms):
    level: int64_t
    delay_ms: int64_t
    if is_schedule and found.delay.size:
        level = _level(cython.address(found.delay), len(delay_levels_ms))
        if level >= 0:
            delay_ms = delay_levels_ms[level - 1] if level else UNKNOWN_LEVEL_MS
            return cython.cast(int64_t, cython.cast(uint64_t, store_ms) + cython.cast(uint64_t, delay_ms))
    if not found.tags.size:
        return 0
    return cython.cast(int32_t, _hash_at(found.tags.at, found.tags.size, 0))


def _level(digits, level_max):
    """The level that is written here, the last one if it is beyond; -1 if it is none, or 0."""
    level: int64_t = 0
    is_zero: cython.bint = True
    at: cython.Py_ssize_t
    for at in range(digits.size):
        if not 48 <= digits.at[at] <= 57:
            return -1
        if digits.at[at] != 48:
            is_zero = False
        level = level * 10 + digits.at[at] - 48
        if level > level_max:
            level = level_max
    return -1 if is_zero else level


def _add_cell(cells, log_offset, size, tags_code):
    at: cython.Py_ssize_t = PyByteArray_GET_SIZE(cells)
    PyByteArray_Resize(cells, at + CELL_BYTES)
    cell: cython.p_uchar = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(cells)) + at
    put_int64(cell, CELL_LOG_OFFSET_AT, log_offset)
    put_int32(cell, CELL_SIZE_AT, size)
    put_int64(cell, CELL_TAGS_CODE_AT, tags_code)
    return 0


def _hash_at(text, size, value):
    begun: uint32_t = value
    at: cython.Py_ssize_t
    for at in range(size):
        if text[at] >= 0x80:
            return hash_of(PyBytes_FromStringAndSize(cython.cast(cython.p_char, text), size), begun)
        value = value * 31 + text[at]
    return value
