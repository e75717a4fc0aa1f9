"""The compiled form of `hashes`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t
from cython.cimports.skyrocketmq.hot.big_endian import uint16_at

__all__ = ["key_hash", "text_hash"]


def text_hash(text, start: int64_t = 0):
    return cython.cast(int32_t, hash_of(text, cython.cast(uint32_t, start)))


def key_hash(key: bytes, start: int64_t):
    return positive_hash(key, start)


def positive_hash(key, start):
    value: int64_t = cython.cast(int32_t, hash_of(key, cython.cast(uint32_t, start)))
    return (-value if value < 0 else value) & 0x7FFFFFFF


def hash_of(text, value):
    begun: uint32_t = value
    data: bytes = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    units: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data))
    at: cython.Py_ssize_t
    for at in range(len(data)):
        if units[at] >= 0x80:
            return _hash_of_wide(text, begun)
        value = value * 31 + units[at]
    return value


def _hash_of_wide(text, value):
    wide = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    data: bytes = wide.encode("utf-16-be", "surrogatepass")
    units: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data))
    at: cython.Py_ssize_t
    for at in range(0, len(data), 2):
        value = value * 31 + uint16_at(units, at)
    return value
