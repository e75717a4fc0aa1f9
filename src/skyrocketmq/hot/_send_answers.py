"""The compiled form of `send_answers`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.skyrocketmq.hot._record_batch import Growing
from cython.cimports.skyrocketmq.hot.big_endian import int32_at, int64_at, put_int32, put_uint16

from skyrocketmq.hot.layout import (
    BINARY_BYTES_MIN,
    BINARY_CODE_AT,
    BINARY_FLAG_AT,
    BINARY_LANGUAGE_AT,
    BINARY_OPAQUE_AT,
    BINARY_REMARK_AT,
    BINARY_VERSION_AT,
    FRAME_HEADER_AT,
    FRAME_LENGTH_BYTES,
    FRAME_WORD_AT,
    HEADER_BINARY,
    TICKET_BINARY,
    TICKET_BYTES,
    TICKET_KIND_AT,
    TICKET_LOG_OFFSET_AT,
    TICKET_OPAQUE_AT,
    TICKET_QUEUE_ID_AT,
    TICKET_QUEUE_OFFSET_AT,
)

__all__ = ["SendAnswers"]


class SendAnswers:
    def __init__(self, *, host_id: bytes, region: bytes, region_json: bytes, trace_on: bytes, version):
        self._json_start = b',"extFields":{"MSG_REGION":%b,"TRACE_ON":"%b","msgId":"%b' % (
            region_json,
            trace_on,
            host_id,
        )
        self._json_end = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % version
        id_bytes = len(host_id) + 16
        self._fields = b"%b%b\0\x05msgId%b%b" % (
            b"\0\x0aMSG_REGION%b%b" % (len(region).to_bytes(4, "big"), region),
            b"\0\x08TRACE_ON%b%b" % (len(trace_on).to_bytes(4, "big"), trace_on),
            id_bytes.to_bytes(4, "big"),
            host_id,
        )
        self._version = version

    def write(self, tickets: bytes, code: int64_t, language: int64_t):
        ticket: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(tickets))
        room: cython.Py_ssize_t = len(self._json_start) + len(self._json_end) + len(self._fields) + 2 * NUMBERS_BYTES
        answers: Growing = Growing()
        answer: cython.p_uchar
        count: cython.Py_ssize_t = len(tickets) // TICKET_BYTES
        if len(tickets) % TICKET_BYTES:
            raise ValueError(f"{len(tickets)} bytes are not tickets")
        while count > 0:
            count -= 1
            answer = answers.reserve(room)
            if ticket[TICKET_KIND_AT] & TICKET_BINARY:
                answers.used += self._put_binary(answer, ticket, code, language)
            else:
                answers.used += self._put_json(answer, ticket, code)
            ticket += TICKET_BYTES
        return answers.take()

    def _put_json(self, answer, ticket, code):
        at: cython.Py_ssize_t = FRAME_HEADER_AT
        at = put_bytes(answer, at, b'{"code":')
        at = put_number(answer, at, code)
        at = put_bytes(answer, at, self._json_start)
        at = put_hex(answer, at, int64_at(ticket, TICKET_LOG_OFFSET_AT))
        at = put_bytes(answer, at, b'","queueId":"')
        at = put_number(answer, at, int32_at(ticket, TICKET_QUEUE_ID_AT))
        at = put_bytes(answer, at, b'","queueOffset":"')
        at = put_number(answer, at, int64_at(ticket, TICKET_QUEUE_OFFSET_AT))
        at = put_bytes(answer, at, b'"},"flag":1,"language":"PYTHON","opaque":')
        at = put_number(answer, at, int32_at(ticket, TICKET_OPAQUE_AT))
        at = put_bytes(answer, at, self._json_end)
        put_int32(answer, 0, at - FRAME_LENGTH_BYTES)
        put_int32(answer, FRAME_WORD_AT, at - FRAME_HEADER_AT)
        return at

    def _put_binary(self, answer, ticket, code, language):
        head: cython.p_uchar = answer + FRAME_HEADER_AT
        at: cython.Py_ssize_t = FRAME_HEADER_AT + BINARY_BYTES_MIN
        at = put_bytes(answer, at, self._fields)
        at = put_hex(answer, at, int64_at(ticket, TICKET_LOG_OFFSET_AT))
        at = put_field(answer, at, b"\0\x07queueId", int32_at(ticket, TICKET_QUEUE_ID_AT))
        at = put_field(answer, at, b"\0\x0bqueueOffset", int64_at(ticket, TICKET_QUEUE_OFFSET_AT))
        put_uint16(head, BINARY_CODE_AT, code)
        head[BINARY_LANGUAGE_AT] = cython.cast(cython.uchar, language)
        put_uint16(head, BINARY_VERSION_AT, self._version)
        put_int32(head, BINARY_OPAQUE_AT, int32_at(ticket, TICKET_OPAQUE_AT))
        put_int32(head, BINARY_FLAG_AT, 1)
        put_int32(head, BINARY_REMARK_AT, 0)
        put_int32(head, BINARY_REMARK_AT + 4, at - FRAME_HEADER_AT - BINARY_BYTES_MIN)
        put_int32(answer, 0, at - FRAME_LENGTH_BYTES)
        put_int32(answer, FRAME_WORD_AT, HEADER_BINARY << 24 | (at - FRAME_HEADER_AT))
        return at


def put_bytes(out, at, text):
    memcpy(out + at, PyBytes_AS_STRING(text), len(text))
    return at + len(text)


def put_number(out, at, value):
    digits: cython.Py_ssize_t = 1
    rest: uint64_t
    index: cython.Py_ssize_t
    if value < 0:
        out[at] = 0x2D
        at += 1
    number: uint64_t = cython.cast(uint64_t, value)
    if value < 0:
        number = 0 - number
    rest = number // 10
    while rest:
        digits += 1
        rest = rest // 10
    for index in range(digits):
        out[at + digits - 1 - index] = cython.cast(cython.uchar, 0x30 + number % 10)
        number = number // 10
    return at + digits


def put_hex(out, at, value):
    bits: uint64_t = cython.cast(uint64_t, value)
    index: cython.Py_ssize_t
    digit: cython.int
    for index in range(16):
        digit = cython.cast(cython.int, bits >> (60 - 4 * index) & 15)
        out[at + index] = cython.cast(cython.uchar, digit + 0x30 if digit < 10 else digit + 0x37)
    return at + 16


def put_field(out, at, name, value):
    value_at: cython.Py_ssize_t = put_bytes(out, at, name) + 4
    end: cython.Py_ssize_t = put_number(out, value_at, value)
    put_int32(out, value_at - 4, end - value_at)
    return end
