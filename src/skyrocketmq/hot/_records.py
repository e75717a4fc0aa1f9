"""The compiled form of `records`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.skyrocketmq.hot.big_endian import int32_at, int64_at, uint16_at, uint32_at

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot.layout import (
    RECORD_BODY_LENGTH_AT,
    RECORD_BORN_HOST_AT,
    RECORD_BORN_TIME_AT,
    RECORD_BYTES_MIN,
    RECORD_CRC_AT,
    RECORD_FLAG_AT,
    RECORD_HEAD_BYTES,
    RECORD_HOST_BYTES,
    RECORD_LOG_OFFSET_AT,
    RECORD_MAGIC,
    RECORD_MAGIC_AT,
    RECORD_PREPARED_AT,
    RECORD_QUEUE_ID_AT,
    RECORD_QUEUE_OFFSET_AT,
    RECORD_RECONSUMED_AT,
    RECORD_STORE_HOST_AT,
    RECORD_STORE_TIME_AT,
    RECORD_SYS_FLAG_AT,
    RECORD_TOTAL_AT,
)
from skyrocketmq.hot.records import UNCOMMON

__all__ = ["read_pulled", "split_records"]

UNCOMMON_BITS = UNCOMMON


def split_records(data, at: int64_t = 0, end=None):
    bounds: list = []
    stop: int64_t
    total: int64_t
    magic: int64_t
    record: cython.p_const_uchar
    buffer = cython.declare(Py_buffer)
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        stop = buffer.len if end is None else end
        if not 0 <= at <= stop <= buffer.len:
            raise ProtocolError(f"there are no bytes from {at} to {stop}, only {buffer.len}")
        while at < stop:
            if stop - at < RECORD_BYTES_MIN:
                raise ProtocolError(f"{stop - at} bytes at {at} are too few for a record")
            record = cython.cast(cython.p_const_uchar, buffer.buf) + at
            total = int32_at(record, RECORD_TOTAL_AT)
            magic = uint32_at(record, RECORD_MAGIC_AT)
            if magic != RECORD_MAGIC or not RECORD_BYTES_MIN <= total <= stop - at:
                raise ProtocolError(f"no record begins at {at}: magic code {magic:#010x}, {total} of {stop - at} bytes")
            bounds.append((at, at + total))
            at += total
    finally:
        PyBuffer_Release(cython.address(buffer))
    return bounds


def read_pulled(data: bytes, at: int64_t, *, stored_topic: bytes, queue_id: int64_t, topic, queue, added: bytes):
    rows: list = []
    stop: int64_t = len(data)
    topic_bytes: int64_t = len(stored_topic)
    added_bytes: int64_t = len(added)
    total: int64_t
    body_bytes: int64_t
    topic_at: int64_t
    properties_at: int64_t
    properties_bytes: int64_t
    sys_flag: int64_t
    record: cython.p_const_uchar
    if at < 0:
        raise ProtocolError(f"no record begins at {at}")
    while stop - at >= RECORD_BYTES_MIN:
        record = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data)) + at
        total = int32_at(record, RECORD_TOTAL_AT)
        sys_flag = int32_at(record, RECORD_SYS_FLAG_AT)
        body_bytes = int32_at(record, RECORD_BODY_LENGTH_AT)
        topic_at = RECORD_HEAD_BYTES + body_bytes
        properties_at = topic_at + 1 + topic_bytes + 2
        properties_bytes = total - properties_at
        # Every length is measured against the record's own end, and that against the data's, before it is used.
        if (
            uint32_at(record, RECORD_MAGIC_AT) != RECORD_MAGIC
            or total > stop - at
            or sys_flag & UNCOMMON_BITS
            or int32_at(record, RECORD_QUEUE_ID_AT) != queue_id
            or body_bytes < 0
            or not 0 <= properties_bytes <= 0x7FFF
            or record[topic_at] != topic_bytes
            or memcmp(record + topic_at + 1, PyBytes_AS_STRING(stored_topic), topic_bytes) != 0
            or uint16_at(record, properties_at - 2) != properties_bytes
        ):
            break
        properties: bytes = PyBytes_FromStringAndSize(cython.NULL, properties_bytes + added_bytes)
        memcpy(PyBytes_AS_STRING(properties), record + properties_at, properties_bytes)
        memcpy(PyBytes_AS_STRING(properties) + properties_bytes, PyBytes_AS_STRING(added), added_bytes)
        rows.append(
            (
                topic,
                _cut(record + RECORD_HEAD_BYTES, body_bytes),
                properties,
                queue,
                int64_at(record, RECORD_QUEUE_OFFSET_AT),
                int64_at(record, RECORD_LOG_OFFSET_AT),
                int64_at(record, RECORD_BORN_TIME_AT),
                _cut(record + RECORD_BORN_HOST_AT, RECORD_HOST_BYTES),
                int64_at(record, RECORD_STORE_TIME_AT),
                _cut(record + RECORD_STORE_HOST_AT, RECORD_HOST_BYTES),
                int32_at(record, RECORD_FLAG_AT),
                sys_flag,
                int32_at(record, RECORD_RECONSUMED_AT),
                int64_at(record, RECORD_PREPARED_AT),
                uint32_at(record, RECORD_CRC_AT),
                total,
            )
        )
        at += total
    return rows, at


def _cut(data, size):
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), size)
