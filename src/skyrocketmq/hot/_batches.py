"""The compiled form of `batches`; what everything means is said there."""

from __future__ import annotations

import sys

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int16_t, int64_t
from cython.cimports.skyrocketmq.hot.big_endian import int32_at, uint16_at

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot.layout import (
    BATCH_BODY_LENGTH_AT,
    BATCH_ENTRY_BYTES_MIN,
    BATCH_FLAG_AT,
    BATCH_HEAD_BYTES,
    BATCH_PROPERTIES_LENGTH_BYTES,
)

__all__ = ["decode_batch"]


def decode_batch(data: bytes, *, count_max: int64_t = sys.maxsize):
    entries: list = []
    batch: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data))
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(data)
    body_at: cython.Py_ssize_t
    body_bytes: cython.Py_ssize_t
    properties_at: cython.Py_ssize_t
    properties_bytes: cython.Py_ssize_t
    flag: cython.int
    while at < end:
        if len(entries) >= count_max:
            raise ProtocolError(f"the batch has more than {count_max} messages")
        if end - at < BATCH_ENTRY_BYTES_MIN:
            raise ProtocolError(f"the batch ends within the entry at {at}")
        flag = int32_at(batch, at + BATCH_FLAG_AT)
        body_bytes = int32_at(batch, at + BATCH_BODY_LENGTH_AT)
        body_at = at + BATCH_HEAD_BYTES
        properties_at = body_at + body_bytes + BATCH_PROPERTIES_LENGTH_BYTES
        if body_bytes < 0 or properties_at > end:
            raise ProtocolError(
                f"the batch entry at {at} announces a body of {body_bytes} bytes, {end - body_at} are left"
            )
        properties_bytes = cython.cast(int16_t, uint16_at(batch, properties_at - BATCH_PROPERTIES_LENGTH_BYTES))
        if properties_bytes < 0 or properties_bytes > end - properties_at:
            raise ProtocolError(
                f"the batch entry before {properties_at} announces {properties_bytes} bytes of properties"
            )
        at = properties_at + properties_bytes
        entries.append((flag, _cut(batch + body_at, body_bytes), _cut(batch + properties_at, properties_bytes)))
    return entries


def _cut(data, size):
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), size)
