"""The compiled form of `conditions`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.libc.string import memchr, memset
from cython.cimports.skyrocketmq.hot.big_endian import int32_at, int64_at

from skyrocketmq.hot.layout import (
    CELL_BYTES,
    CELL_LOG_OFFSET_AT,
    CELL_SIZE_AT,
    NAME_END,
    PAIR_END,
    RECORD_BODY_LENGTH_AT,
    RECORD_BORN_IPV6,
    RECORD_BYTES_MIN,
    RECORD_HEAD_BYTES,
    RECORD_IPV6_BYTES,
    RECORD_STORE_IPV6,
    RECORD_SYS_FLAG_AT,
)

__all__ = ["Asked", "Compared", "IsIn", "IsMissing", "Junction", "Negation", "PropertyReader"]

# Answers are numbers here: 1 is true, 0 false, -1 unknown.
_SIGNS = {"<": 0, "<=": 1, ">": 2, ">=": 3, "=": 4}


class Condition:
    def ask(self, values):
        answer: cython.int = self.look(list(values))
        return None if answer < 0 else answer == 1

    def look(self, values):
        raise NotImplementedError


class Junction(Condition):
    def __init__(self, conditions, *, is_and):
        self._conditions = list(conditions)
        self._stop_at = 0 if is_and else 1

    def look(self, values):
        end: cython.int = 1 - self._stop_at
        answer: cython.int
        for each in self._conditions:
            answer = cython.cast(Condition, each, typecheck=True).look(values)
            if answer == self._stop_at:
                return answer
            if answer < 0:
                end = -1
        return end


class Negation(Condition):
    def __init__(self, condition):
        self._condition = condition

    def look(self, values):
        answer: cython.int = self._condition.look(values)
        return answer if answer < 0 else 1 - answer


class IsMissing(Condition):
    def __init__(self, slot):
        self._slot = slot

    def look(self, values):
        return values[self._slot] is None


class IsIn(Condition):
    def __init__(self, slot, texts):
        self._slot = slot
        self._texts = frozenset(texts)

    def look(self, values):
        value = values[self._slot]
        return -1 if value is None else value in self._texts


class Compared(Condition):
    def __init__(self, slot, sign, wanted, *, digits_sure, read):
        self._slot = slot
        self._sign = _SIGNS[sign]
        self._read = read
        self._digits_sure = digits_sure
        self._is_decimal = isinstance(wanted, float)
        if self._is_decimal:
            self._decimal = wanted
        else:
            self._whole = wanted

    def look(self, values):
        value = values[self._slot]
        if value is None:
            return -1
        length: cython.Py_ssize_t = 0
        text = PyUnicode_AsUTF8AndSize(value, cython.address(length))
        if self._is_decimal:
            return self._look_at_decimal(float(value) if _is_decimal(text, length) else self._read(value))
        whole: int64_t
        begin: cython.Py_ssize_t = 1 if length and text[0] == 45 else 0  # a minus sign
        if 0 < length - begin <= self._digits_sure and _are_digits(text, begin, length):
            whole = 0
            at: cython.Py_ssize_t
            for at in range(begin, length):
                whole = 10 * whole + (text[at] - 48)
            if begin:
                whole = -whole
        else:
            whole = self._read(value)
        return _compare(self._sign, (whole > self._whole) - (whole < self._whole))

    def _look_at_decimal(self, found):
        if found != found:
            return _compare(self._sign, 1)
        return _compare(self._sign, (found > self._decimal) - (found < self._decimal))


def _compare(sign, order):
    """`order` is below, at or above 0, as the value is below, at or above what it is compared with."""
    if sign == 0:
        return order < 0
    if sign == 1:
        return order <= 0
    if sign == 2:
        return order > 0
    if sign == 3:
        return order >= 0
    return order == 0


def _are_digits(text, at, end):
    while at < end:
        if not 48 <= text[at] <= 57:
            return False
        at += 1
    return True


def _is_decimal(text, length):
    """Whether it is digits with at most one point among them, after a minus sign perhaps."""
    at: cython.Py_ssize_t = 1 if length and text[0] == 45 else 0
    digits: cython.Py_ssize_t = 0
    points: cython.Py_ssize_t = 0
    while at < length:
        if text[at] == 46:
            points += 1
        elif 48 <= text[at] <= 57:
            digits += 1
        else:
            return False
        at += 1
    return digits > 0 and points <= 1


class Asked(Condition):
    def __init__(self, function):
        self._function = function

    def look(self, values):
        answer = self._function(values)
        return -1 if answer is None else bool(answer)


class PropertyReader:
    def __init__(self, names):
        self._slots = {}
        self._places = []
        memset(self._firsts, 0, 256)
        for name in names:
            encoded: bytes = name.encode()
            self._places.append(self._slots.setdefault(encoded, len(self._slots)))
            if encoded:
                self._firsts[cython.cast(cython.uchar, encoded[0])] = 1
        self._is_plain = self._places == list(range(len(self._slots)))

    def values(self, text):
        buffer = cython.declare(Py_buffer)
        PyObject_GetBuffer(text, cython.address(buffer), PyBUF_SIMPLE)
        try:
            return self._values(cython.cast(cython.p_const_uchar, buffer.buf), buffer.len)
        finally:
            PyBuffer_Release(cython.address(buffer))

    def select(self, condition, view, base, cells):
        asked: Condition = condition
        first: int64_t = base
        position: int64_t
        size: int64_t
        at: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = 0
        seen = cython.declare(Py_buffer)
        listed = cython.declare(Py_buffer)
        PyObject_GetBuffer(view, cython.address(seen), PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(cells, cython.address(listed), PyBUF_SIMPLE)
            try:
                data = cython.cast(cython.p_const_uchar, seen.buf)
                cell = cython.cast(cython.p_const_uchar, listed.buf)
                verdicts: bytes = PyBytes_FromStringAndSize(cython.NULL, listed.len // CELL_BYTES)
                while listed.len - at >= CELL_BYTES:
                    position = int64_at(cell, at + CELL_LOG_OFFSET_AT)
                    size = int32_at(cell, at + CELL_SIZE_AT)
                    # Written so that no sum can leave 64 bits, whatever a cell holds.
                    if size < 0 or size > seen.len or position < first or position - first > seen.len - size:
                        break
                    PyBytes_AS_STRING(verdicts)[count] = self._wants(asked, data + (position - first), size)
                    count += 1
                    at += CELL_BYTES
                return verdicts[:count]
            finally:
                PyBuffer_Release(cython.address(listed))
        finally:
            PyBuffer_Release(cython.address(seen))

    def _wants(self, condition, record, size):
        values: list = self._row(record, size)
        if values is None:
            return True
        try:
            return condition.look(values) == 1
        except ValueError:
            return False

    def _row(self, record, size):
        """`record` has `size` bytes."""
        if size < RECORD_BYTES_MIN:
            return None
        flag: int32_t = int32_at(record, RECORD_SYS_FLAG_AT)
        head: cython.Py_ssize_t = RECORD_HEAD_BYTES
        if flag & RECORD_BORN_IPV6:
            head += RECORD_IPV6_BYTES
        if flag & RECORD_STORE_IPV6:
            head += RECORD_IPV6_BYTES
        if head >= size:
            return None
        body_bytes: cython.Py_ssize_t = int32_at(record, RECORD_BODY_LENGTH_AT + head - RECORD_HEAD_BYTES)
        if body_bytes < 0 or body_bytes >= size - head:
            return None
        at: cython.Py_ssize_t = head + body_bytes
        at += 1 + record[at] + 2
        if at > size:
            return None
        return self._values(record + at, size - at)

    def _values(self, text, length):
        """`text` has `length` bytes."""
        found: list = [None] * len(self._slots)
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        name_end: cython.Py_ssize_t
        while at < length:
            stop = cython.cast(cython.p_const_uchar, memchr(text + at, PAIR_END, length - at))
            end = length if stop == cython.NULL else stop - text
            if self._firsts[text[at]]:
                stop = cython.cast(cython.p_const_uchar, memchr(text + at, NAME_END, end - at))
                if stop != cython.NULL:
                    name_end = stop - text
                    if name_end > at and end > name_end + 1:
                        name = PyBytes_FromStringAndSize(cython.cast(cython.p_const_char, text + at), name_end - at)
                        slot = self._slots.get(name)
                        if slot is not None:
                            found[slot] = PyUnicode_DecodeUTF8(
                                cython.cast(cython.p_const_char, text + name_end + 1), end - name_end - 1, b"replace"
                            )
            at = end + 1
        return found if self._is_plain else [found[place] for place in self._places]
