"""The compiled form of `binary_headers`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdio import snprintf
from cython.cimports.libc.string import memcpy
from cython.cimports.skyrocketmq.hot.big_endian import int32_at, uint16_at, uint32_at

from skyrocketmq.hot.layout import (
    BINARY_BYTES_MIN,
    BINARY_CODE_AT,
    BINARY_FLAG_AT,
    BINARY_NAME_LENGTH_BYTES,
    BINARY_OPAQUE_AT,
    BINARY_REMARK_AT,
    BINARY_VALUE_LENGTH_BYTES,
    BINARY_VERSION_AT,
)

__all__ = ["as_json"]

START_BYTES = 128  # as much as everything but the fields takes at most
MORE_BYTES = 4  # by which a field may grow: quotation marks, colon, comma and `null` in the place of six length bytes


def as_json(data, header_at, body_at):
    first: cython.Py_ssize_t = header_at
    end: cython.Py_ssize_t = body_at
    if not 0 <= first <= end <= len(data) or end - first < BINARY_BYTES_MIN:
        return None
    header: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data)) + first
    length: cython.Py_ssize_t = end - first
    ext_at: cython.Py_ssize_t = BINARY_REMARK_AT + BINARY_VALUE_LENGTH_BYTES
    if int32_at(header, BINARY_REMARK_AT) or int32_at(header, ext_at) != length - BINARY_BYTES_MIN:
        return None
    # Each field has at least six bytes of lengths, and as text four bytes more at most.
    entry_bytes: cython.Py_ssize_t = BINARY_NAME_LENGTH_BYTES + BINARY_VALUE_LENGTH_BYTES
    room: cython.Py_ssize_t = START_BYTES + length + MORE_BYTES * (length // entry_bytes)
    made: bytes = PyBytes_FromStringAndSize(cython.NULL, room)
    out: cython.p_char = PyBytes_AS_STRING(made)
    size: cython.Py_ssize_t = snprintf(
        out,
        START_BYTES,
        b'{"code":%d,"version":%d,"opaque":%d,"flag":%d,"extFields":{',
        cython.cast(cython.short, uint16_at(header, BINARY_CODE_AT)),
        cython.cast(cython.short, uint16_at(header, BINARY_VERSION_AT)),
        int32_at(header, BINARY_OPAQUE_AT),
        int32_at(header, BINARY_FLAG_AT),
    )
    at: cython.Py_ssize_t = BINARY_BYTES_MIN
    name_at: cython.Py_ssize_t
    value_at: cython.Py_ssize_t
    name_bytes: int64_t
    value_bytes: int64_t
    while at < length:
        name_at = at + BINARY_NAME_LENGTH_BYTES
        if name_at > length:
            return None
        name_bytes = uint16_at(header, at)
        value_at = name_at + name_bytes + BINARY_VALUE_LENGTH_BYTES
        if value_at > length:
            return None
        value_bytes = uint32_at(header, value_at - BINARY_VALUE_LENGTH_BYTES)
        if value_bytes > length - value_at:
            return None
        if not _is_plain(header + name_at, name_bytes) or not _is_plain(header + value_at, value_bytes):
            return None
        if at > BINARY_BYTES_MIN:
            out[size] = 44  # a comma
            size += 1
        size = _put_text(out, size, header + name_at, name_bytes)
        out[size] = 58  # a colon
        size += 1
        if value_bytes:
            size = _put_text(out, size, header + value_at, value_bytes)
        else:
            memcpy(out + size, b"null", 4)
            size += 4
        at = value_at + value_bytes
    memcpy(out + size, b"}}", 2)
    return made[: size + 2]


def _put_text(out, size, text, length):
    out[size] = 34  # a quotation mark
    memcpy(out + size + 1, text, length)
    out[size + 1 + length] = 34
    return size + 2 + length


def _is_plain(text, length):
    at: cython.Py_ssize_t = 0
    while at < length and 32 <= text[at] < 127 and text[at] != 34 and text[at] != 92:
        at += 1
    return at == length
