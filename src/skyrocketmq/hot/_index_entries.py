"""The compiled form of `index_entries`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t
from cython.cimports.skyrocketmq.hot._hashes import positive_hash
from cython.cimports.skyrocketmq.hot.big_endian import int32_at, int64_at, put_int32, put_int64

from skyrocketmq.hot.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HASH_AT,
    INDEX_HEADER_BYTES,
    INDEX_LOG_OFFSET_AT,
    INDEX_PREVIOUS_AT,
    INDEX_SECONDS_AT,
    INDEX_SECONDS_MAX,
    INDEX_SLOT_BYTES,
    KEY_BYTES,
    KEY_HASH_AT,
    KEY_LOG_OFFSET_AT,
    KEY_STORE_TIME_AT,
)

__all__ = ["pack_key", "put_keys", "take_back_keys"]


def pack_key(key: bytes, start: int64_t, log_offset: int64_t, store_ms: int64_t):
    packed: bytes = PyBytes_FromStringAndSize(cython.NULL, KEY_BYTES)
    data: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(packed))
    put_int32(data, KEY_HASH_AT, positive_hash(key, start))
    put_int64(data, KEY_LOG_OFFSET_AT, log_offset)
    put_int64(data, KEY_STORE_TIME_AT, store_ms)
    return packed


def put_keys(mapped, keys: bytes, *, first: int64_t, slot_count: int64_t, begin_ms: int64_t):
    count: cython.Py_ssize_t = len(keys) // KEY_BYTES
    if len(keys) % KEY_BYTES or first <= 0 or first > 0x7FFFFFFF - count:
        raise ValueError(f"{len(keys)} bytes are not keys whose entries are numbered from {first} on")
    entries: bytes = PyBytes_FromStringAndSize(cython.NULL, count * INDEX_ENTRY_BYTES)
    key: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(keys))
    entry: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(entries))
    slots: cython.p_uchar
    number: int64_t
    previous: int64_t
    key_hash: int64_t
    slot_at: cython.Py_ssize_t
    used: cython.Py_ssize_t = 0
    buffer = cython.declare(Py_buffer)
    PyObject_GetBuffer(mapped, cython.address(buffer), PyBUF_WRITABLE)
    try:
        _check_slots(buffer.len, slot_count)
        slots = cython.cast(cython.p_uchar, buffer.buf) + INDEX_HEADER_BYTES
        for number in range(first, first + count):
            key_hash = int32_at(key, KEY_HASH_AT)
            slot_at = INDEX_SLOT_BYTES * (key_hash % slot_count)
            previous = int32_at(slots, slot_at)
            if not 0 < previous < number:
                previous = 0
                used += 1
            put_int32(entry, INDEX_HASH_AT, key_hash)
            put_int64(entry, INDEX_LOG_OFFSET_AT, int64_at(key, KEY_LOG_OFFSET_AT))
            put_int32(entry, INDEX_SECONDS_AT, _seconds_since(begin_ms, int64_at(key, KEY_STORE_TIME_AT)))
            put_int32(entry, INDEX_PREVIOUS_AT, previous)
            put_int32(slots, slot_at, number)
            key += KEY_BYTES
            entry += INDEX_ENTRY_BYTES
    finally:
        PyBuffer_Release(cython.address(buffer))
    return entries, used


def take_back_keys(mapped, entries: bytes, *, slot_count: int64_t):
    at: cython.Py_ssize_t = len(entries)
    if at % INDEX_ENTRY_BYTES:
        raise ValueError(f"{at} bytes are not entries")
    entry: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(entries))
    slots: cython.p_uchar
    key_hash: int64_t
    buffer = cython.declare(Py_buffer)
    PyObject_GetBuffer(mapped, cython.address(buffer), PyBUF_WRITABLE)
    try:
        _check_slots(buffer.len, slot_count)
        slots = cython.cast(cython.p_uchar, buffer.buf) + INDEX_HEADER_BYTES
        while at:
            at -= INDEX_ENTRY_BYTES
            key_hash = int32_at(entry, at + INDEX_HASH_AT)
            put_int32(slots, INDEX_SLOT_BYTES * (key_hash % slot_count), int32_at(entry, at + INDEX_PREVIOUS_AT))
    finally:
        PyBuffer_Release(cython.address(buffer))


def _check_slots(mapped_bytes, slot_count):
    if (
        slot_count <= 0
        or mapped_bytes < INDEX_HEADER_BYTES
        or (slot_count > (mapped_bytes - INDEX_HEADER_BYTES) // INDEX_SLOT_BYTES)
    ):
        raise ValueError(f"{mapped_bytes} bytes have no room for {slot_count} slots")
    return 0


def _seconds_since(begin_ms, store_ms):
    # Compared first, so that the difference cannot leave 64 bits.
    if begin_ms <= 0 or store_ms <= begin_ms:
        return 0
    seconds: int64_t = (store_ms - begin_ms) // 1000
    return seconds if seconds < INDEX_SECONDS_MAX else INDEX_SECONDS_MAX
