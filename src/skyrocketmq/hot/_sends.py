"""The compiled form of `sends`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize, PyUnicode_DecodeASCII
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcmp, memcpy, memset, strlen
from cython.cimports.skyrocketmq.hot.big_endian import put_int32, uint32_at

from skyrocketmq.errors import FrameTooLarge
from skyrocketmq.hot.layout import (
    FRAME_BYTES_MAX,
    FRAME_HEADER_AT,
    FRAME_LENGTH_BYTES,
    FRAME_LENGTH_MAX,
    FRAME_WORD_AT,
)
from skyrocketmq.hot.sends import NUMBER_DIGITS_MAX, QUEUE_ID_MAX, QUEUE_OFFSET_MAX, RESPONSE_BIT

__all__ = ["encode_send", "read_send_answers"]

DIGITS_MAX = NUMBER_DIGITS_MAX
ID_MAX = QUEUE_ID_MAX
OFFSET_MAX = QUEUE_OFFSET_MAX
ZERO = ord("0")
NINE = ord("9")
LETTERS = ord("a") - 10  # of hexadecimal digits


def encode_send(
    head: bytes,
    tail: bytes,
    end: bytes,
    opaque: int64_t,
    sys_flag: int64_t,
    born_ms: int64_t,
    flag: int64_t,
    properties: str,
    body: bytes,
):
    text_bytes: cython.Py_ssize_t = 0
    try:
        text = cython.cast(cython.p_const_uchar, PyUnicode_AsUTF8AndSize(properties, cython.address(text_bytes)))
    except UnicodeEncodeError:
        properties = properties.encode("utf-8", "replace").decode()
        text = cython.cast(cython.p_const_uchar, PyUnicode_AsUTF8AndSize(properties, cython.address(text_bytes)))
    numbers = cython.declare(cython.uchar[128])  # the numbers before the properties, and what is around them
    number_end: cython.p_uchar = numbers
    number_end = _put_bytes(number_end, b'"f":"')
    number_end = _put_number(number_end, sys_flag)
    number_end = _put_bytes(number_end, b'","g":"')
    number_end = _put_number(number_end, born_ms)
    number_end = _put_bytes(number_end, b'","h":"')
    number_end = _put_number(number_end, flag)
    number_end = _put_bytes(number_end, b'","i":"')
    numbers_bytes: cython.Py_ssize_t = number_end - cython.cast(cython.p_uchar, numbers)
    opaque_digits = cython.declare(cython.uchar[24])
    opaque_bytes: cython.Py_ssize_t = _put_number(opaque_digits, opaque) - cython.cast(cython.p_uchar, opaque_digits)
    header_bytes: cython.Py_ssize_t = (
        len(head) + numbers_bytes + _escaped_bytes(text, text_bytes) + 1 + len(tail) + opaque_bytes + len(end)
    )
    size: cython.Py_ssize_t = FRAME_HEADER_AT + header_bytes + len(body)
    if size > FRAME_BYTES_MAX:
        raise FrameTooLarge(f"a frame of {size} bytes, the limit is {FRAME_BYTES_MAX}")
    frame: bytes = PyBytes_FromStringAndSize(cython.NULL, size)
    to: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(frame))
    put_int32(to, 0, size - FRAME_LENGTH_BYTES)
    put_int32(to, FRAME_WORD_AT, header_bytes)
    to = _put_bytes(to + FRAME_HEADER_AT, head)
    memcpy(to, numbers, numbers_bytes)
    to = _put_escaped(to + numbers_bytes, text, text_bytes)
    to[0] = b'"'
    to = _put_bytes(to + 1, tail)
    memcpy(to, opaque_digits, opaque_bytes)
    to = _put_bytes(to + opaque_bytes, end)
    _put_bytes(to, body)
    return frame


def _put_bytes(to, data):
    memcpy(to, PyBytes_AS_STRING(data), len(data))
    return to + len(data)


def _put_number(to, number):
    digits = cython.declare(cython.uchar[20])
    count: cython.Py_ssize_t = 0
    rest: uint64_t = number
    if number < 0:
        to[0] = b"-"
        to += 1
        rest = 0 - rest  # of the lowest number too: it has no positive one
    while True:
        digits[count] = ZERO + rest % 10
        count += 1
        rest //= 10
        if not rest:
            break
    while count:
        count -= 1
        to[0] = digits[count]
        to += 1
    return to


def _escaped_bytes(text, size):
    more: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    for index in range(size):
        byte: cython.uchar = text[index]
        if byte < 0x20:
            more += 1 if byte in (b"\b", b"\t", b"\n", b"\f", b"\r") else 5
        elif byte == b'"' or byte == b"\\":
            more += 1
    return size + more


def _put_escaped(to, text, size):
    index: cython.Py_ssize_t
    for index in range(size):
        byte: cython.uchar = text[index]
        if byte >= 0x20 and byte != b'"' and byte != b"\\":
            to[0] = byte
            to += 1
            continue
        to[0] = b"\\"
        if byte >= 0x20:
            to[1] = byte
        elif byte == b"\b":
            to[1] = b"b"
        elif byte == b"\t":
            to[1] = b"t"
        elif byte == b"\n":
            to[1] = b"n"
        elif byte == b"\f":
            to[1] = b"f"
        elif byte == b"\r":
            to[1] = b"r"
        else:
            to[1] = b"u"
            to[2] = b"0"
            to[3] = b"0"
            to[4] = ZERO + (byte >> 4)
            to[5] = (ZERO if byte & 15 < 10 else LETTERS) + (byte & 15)
            to += 4
        to += 2
    return to


def read_send_answers(data: bytes):
    answers: list = []
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = len(data)
    length: int64_t
    frame: cython.p_const_uchar
    while size - at > FRAME_HEADER_AT:
        frame = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data)) + at
        length = uint32_at(frame, 0)
        if (
            length > FRAME_LENGTH_MAX
            or length > size - at - FRAME_LENGTH_BYTES
            or uint32_at(frame, FRAME_WORD_AT) != length - FRAME_LENGTH_BYTES
        ):
            break
        answer: tuple = _read_answer(frame + FRAME_HEADER_AT, length - FRAME_LENGTH_BYTES)
        if answer is None:
            break
        answers.append(answer)
        at += FRAME_LENGTH_BYTES + length
    return answers, at


def _read_answer(header, size):
    cursor = cython.declare(Cursor)
    fields = cython.declare(Fields)
    name = cython.declare(Text)
    text = cython.declare(Text)
    number: int64_t = 0
    code: int64_t = -1
    flag: int64_t = 0
    opaque: int64_t = 0
    has_flag: cython.bint = False
    has_opaque: cython.bint = False
    cursor.at = header
    cursor.end = header + size
    memset(cython.address(fields), 0, cython.sizeof(Fields))
    if not _take(cython.address(cursor), b"{"):
        return None
    while True:
        if not _take_text(cython.address(cursor), cython.address(name)) or not _take(cython.address(cursor), b":"):
            return None
        if _is(cython.address(name), b"extFields"):
            if not _read_fields(cython.address(cursor), cython.address(fields)):
                return None
        elif _is(cython.address(name), b"language") or _is(cython.address(name), b"serializeTypeCurrentRPC"):
            if not _take_text(cython.address(cursor), cython.address(text)):
                return None
        elif _is(cython.address(name), b"remark"):
            if not _take_null(cython.address(cursor)):
                return None
        else:
            if not _take_int32(cython.address(cursor), cython.address(number)):
                return None
            if _is(cython.address(name), b"code"):
                code = number
            elif _is(cython.address(name), b"flag"):
                flag, has_flag = number, True
            elif _is(cython.address(name), b"opaque"):
                opaque, has_opaque = number, True
            elif not _is(cython.address(name), b"version"):
                return None
        if not _take(cython.address(cursor), b","):
            break
    if not _take(cython.address(cursor), b"}"):
        return None
    _skip_blanks(cython.address(cursor))
    queue_id: int64_t = _number(cython.address(fields.queue_id), ID_MAX)
    queue_offset: int64_t = _number(cython.address(fields.queue_offset), OFFSET_MAX)
    if (
        cursor.at != cursor.end
        or code
        or not flag & RESPONSE_BIT
        or not has_flag
        or not has_opaque
        or fields.msg_id.at == cython.NULL
        or queue_id < 0
        or queue_offset < 0
    ):
        return None
    return (
        opaque,
        _str(cython.address(fields.msg_id)),
        queue_id,
        queue_offset,
        _str(cython.address(fields.transaction_id)),
        _str(cython.address(fields.region)),
        not _is(cython.address(fields.trace_on), b"false"),
    )


def _read_fields(cursor, fields):
    """An object of texts. The texts of one that came before are forgotten, as any reader of JSON does."""
    name = cython.declare(Text)
    text = cython.declare(Text)
    memset(fields, 0, cython.sizeof(Fields))
    if not _take(cursor, b"{"):
        return False
    if _take(cursor, b"}"):
        return True
    while True:
        if (
            not _take_text(cursor, cython.address(name))
            or not _take(cursor, b":")
            or not _take_text(cursor, cython.address(text))
        ):
            return False
        if _is(cython.address(name), b"msgId"):
            fields.msg_id = text
        elif _is(cython.address(name), b"queueId"):
            fields.queue_id = text
        elif _is(cython.address(name), b"queueOffset"):
            fields.queue_offset = text
        elif _is(cython.address(name), b"transactionId"):
            fields.transaction_id = text
        elif _is(cython.address(name), b"MSG_REGION"):
            fields.region = text
        elif _is(cython.address(name), b"TRACE_ON"):
            fields.trace_on = text
        if not _take(cursor, b","):
            return _take(cursor, b"}")


def _take(cursor, mark):
    """Step over blanks, and over this mark if it follows them."""
    _skip_blanks(cursor)
    if cursor.at == cursor.end or cursor.at[0] != mark:
        return False
    cursor.at += 1
    return True


def _skip_blanks(cursor):
    while cursor.at < cursor.end and cursor.at[0] in (b" ", b"\n", b"\r", b"\t"):
        cursor.at += 1


def _take_text(cursor, text):
    if not _take(cursor, b'"'):
        return False
    text.at = cursor.at
    while cursor.at < cursor.end:
        if cursor.at[0] == b'"':
            text.size = cursor.at - text.at
            cursor.at += 1
            return True
        if cursor.at[0] < 0x20 or cursor.at[0] == b"\\" or cursor.at[0] >= 0x80:
            return False
        cursor.at += 1
    return False


def _take_int32(cursor, number):
    is_negative: cython.bint = _take(cursor, b"-")
    begin: cython.p_const_uchar = cursor.at
    value: uint64_t = 0
    while cursor.at < cursor.end and ZERO <= cursor.at[0] <= NINE and value <= ID_MAX:
        value = 10 * value + (cursor.at[0] - ZERO)
        cursor.at += 1
    if cursor.at == begin or (begin[0] == ZERO and cursor.at - begin > 1) or value > ID_MAX + is_negative:
        return False
    number[0] = value
    if is_negative:
        number[0] = -number[0]
    return True


def _take_null(cursor):
    _skip_blanks(cursor)
    if cursor.end - cursor.at < 4 or memcmp(cursor.at, b"null", 4) != 0:
        return False
    cursor.at += 4
    return True


def _is(text, name):
    return (
        text.at != cython.NULL
        and text.size == cython.cast(cython.Py_ssize_t, strlen(name))
        and memcmp(text.at, name, text.size) == 0
    )


def _number(text, highest):
    """The number that a text of digits is; -1 for any other text, and for one that is not there."""
    value: uint64_t = 0
    index: cython.Py_ssize_t
    if text.at == cython.NULL or not 0 < text.size <= DIGITS_MAX:
        return -1
    for index in range(text.size):
        if not ZERO <= text.at[index] <= NINE:
            return -1
        value = 10 * value + (text.at[index] - ZERO)
    return cython.cast(int64_t, value) if value <= highest else -1


def _str(text):
    if text.at == cython.NULL:
        return None
    return PyUnicode_DecodeASCII(cython.cast(cython.p_char, text.at), text.size, cython.NULL)
