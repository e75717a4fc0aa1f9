"""The compiled form of `cells`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import INT64_MAX, int64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.skyrocketmq.hot.big_endian import int32_at, int64_at

from skyrocketmq.hot.layout import (
    CELL_BYTES,
    CELL_FILLER_SIZE,
    CELL_LOG_OFFSET_AT,
    CELL_SIZE_AT,
    CELL_TAGS_CODE_AT,
    CELL_UNIT_ADDRESS_MAX,
)

__all__ = ["CellLimits", "CellScan", "TagCodes"]


class TagCodes:
    def __init__(self, codes):
        # What does not fit in 64 bits is in no cell.
        fitting = sorted({code for code in codes if -0x8000_0000_0000_0000 <= code <= 0x7FFF_FFFF_FFFF_FFFF})
        self._count = len(fitting)
        self._sorted = PyBytes_FromStringAndSize(cython.NULL, self._count * cython.sizeof(int64_t))
        numbers: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(self._sorted))
        index: cython.Py_ssize_t
        for index in range(self._count):
            numbers[index] = fitting[index]

    def _holds(self, code):
        numbers: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(self._sorted))
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self._count
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) >> 1
            if numbers[middle] < code:
                low = middle + 1
            else:
                high = middle
        return low < self._count and numbers[low] == code

    def matches(self, tags_code):
        return (
            self._holds(tags_code)
            or tags_code <= CELL_UNIT_ADDRESS_MAX
            or self._holds(cython.cast(cython.int, tags_code))
        )


class CellLimits:
    def __init__(self, *, bytes_max, count_max, disk_bytes_max, disk_count_max, memory_bytes, file_bytes):
        if file_bytes <= 0:
            raise ValueError("a log file has some bytes")
        self.bytes_max = bytes_max
        self.count_max = count_max
        self.disk_bytes_max = disk_bytes_max
        self.disk_count_max = disk_count_max
        self.memory_bytes = memory_bytes
        self.file_bytes = file_bytes


class CellScan:
    def __init__(self, limits, count_max, *, log_begin, log_end, own_from, files, tags=None, stops_at_units=False):
        self._limits = limits
        self._count_max = count_max
        self._log_begin = log_begin
        self._log_end = log_end
        self._disk_end = self._log_end - self._limits.memory_bytes
        self._own_from = own_from
        self._files = files
        self._tags = tags
        self._stops_at_units = stops_at_units
        self._run_end = -1
        self._skip_until = 0
        self._skips_all = False
        self._file_start = -1
        self._bounds = b""
        self._run_count = 0
        self.taken = 0
        self.taken_bytes = 0
        self.looked_at = 0
        self.position = self._log_end
        self.has_removed = False
        self.is_full = False
        self.places = []

    @property
    def runs(self):
        bounds: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(self._bounds))
        index: cython.Py_ssize_t
        return [(bounds[2 * index], bounds[2 * index + 1]) for index in range(self._run_count)]

    @property
    def run_count(self):
        return self._run_count

    @property
    def begin(self):
        bounds: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(self._bounds))
        return bounds[0] if self._run_count else 0

    @property
    def end(self):
        return self._run_end if self._run_count else 0

    def scan(self, cells, at=0, unit_code=None, wanted=None):
        first: cython.Py_ssize_t = at
        if first < 0:
            raise ValueError("cells begin at 0")
        verdicts: bytes = None if wanted is None else bytes(wanted)
        buffer = cython.declare(Py_buffer)
        PyObject_GetBuffer(cells, cython.address(buffer), PyBUF_SIMPLE)
        try:
            if verdicts is not None and len(verdicts) < buffer.len // CELL_BYTES:
                raise ValueError("there is a byte for each cell")
            return self._scan(cython.cast(cython.p_const_uchar, buffer.buf), first, buffer.len, unit_code, verdicts)
        finally:
            PyBuffer_Release(cython.address(buffer))

    def _scan(self, data, at, length, unit_code, wanted):
        """`data` has `length` bytes: a cell is read only if it lies wholly within them. `wanted` has one for each."""
        verdicts: cython.p_char = cython.NULL
        if wanted is not None:
            verdicts = PyBytes_AS_STRING(wanted)
        has_unit_code: cython.bint = unit_code is not None
        code_of_unit: int64_t = unit_code if has_unit_code else 0
        position: int64_t
        size: int64_t
        tags_code: int64_t
        if at < length:
            self._make_room((length - at) // CELL_BYTES)
        while length - at >= CELL_BYTES:
            position = int64_at(data, at + CELL_LOG_OFFSET_AT)
            size = int32_at(data, at + CELL_SIZE_AT)
            self.position = position
            if position < self._skip_until or self._skips_all or size == CELL_FILLER_SIZE:
                self.looked_at += 1
                at += CELL_BYTES
                continue
            if self.taken and self._is_too_much(position, size):
                self.is_full = True
                return at
            tags_code = int64_at(data, at + CELL_TAGS_CODE_AT)
            if has_unit_code:
                tags_code = code_of_unit
                has_unit_code = False
            elif self._stops_at_units and tags_code <= CELL_UNIT_ADDRESS_MAX:
                return at
            self.looked_at += 1
            at += CELL_BYTES
            if self._tags is not None and not self._tags.matches(tags_code):
                continue
            if not self._has(position, size):
                self.has_removed = True
                self._skip_file_of(position)
            elif verdicts == cython.NULL or verdicts[at // CELL_BYTES - 1]:
                self._take(position, size)
        return at

    def gather(self, view, base):
        first: int64_t = base
        begin: int64_t
        end: int64_t
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t = 0
        bounds: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(self._bounds))
        buffer = cython.declare(Py_buffer)
        PyObject_GetBuffer(view, cython.address(buffer), PyBUF_SIMPLE)
        try:
            for index in range(self._run_count):
                if bounds[2 * index] < first or bounds[2 * index + 1] - first > buffer.len:
                    return None
            # The runs hold exactly what was taken: each was measured when it was added.
            gathered: bytes = PyBytes_FromStringAndSize(cython.NULL, self.taken_bytes)
            source: cython.p_char = cython.cast(cython.p_char, buffer.buf)
            target: cython.p_char = PyBytes_AS_STRING(gathered)
            for index in range(self._run_count):
                begin = bounds[2 * index]
                end = bounds[2 * index + 1]
                memcpy(target + at, source + (begin - first), end - begin)
                at += end - begin
            return gathered
        finally:
            PyBuffer_Release(cython.address(buffer))

    def _is_too_much(self, position, size):
        if self.taken >= self._count_max:
            return True
        if position < self._disk_end:
            return self.taken >= self._limits.disk_count_max or self.taken_bytes + size > self._limits.disk_bytes_max
        return self.taken >= self._limits.count_max or self.taken_bytes + size > self._limits.bytes_max

    def _has(self, position, size):
        # Written so that no sum can leave 64 bits, whatever a cell holds.
        if size <= 0 or position < self._log_begin or position > self._log_end - size:
            return False
        inside: int64_t = position % self._limits.file_bytes
        if size > self._limits.file_bytes - inside:
            return False
        if position - inside != self._file_start:
            if position - inside not in self._files:
                return False
            self._file_start = position - inside
        return True

    def _take(self, position, size):
        bounds: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(self._bounds))
        end: int64_t = position + size
        if position == self._run_end and position % self._limits.file_bytes:
            bounds[2 * self._run_count - 1] = end
        else:
            bounds[2 * self._run_count] = position
            bounds[2 * self._run_count + 1] = end
            self._run_count += 1
        if (not self.taken and position < self._own_from) or self.places:
            self.places.append((position, size))
        self._run_end = end
        self._skip_until = 0
        self.taken += 1
        self.taken_bytes += size
        return 0

    def _make_room(self, count):
        """For so many runs more than there are."""
        wider: bytes = PyBytes_FromStringAndSize(cython.NULL, (self._run_count + count) * 2 * cython.sizeof(int64_t))
        memcpy(PyBytes_AS_STRING(wider), PyBytes_AS_STRING(self._bounds), self._run_count * 2 * cython.sizeof(int64_t))
        self._bounds = wider
        return 0

    def _skip_file_of(self, position):
        left: int64_t = self._limits.file_bytes - position % self._limits.file_bytes
        if position > INT64_MAX - left:
            self._skips_all = True  # the next file would begin where no cell can point to
        else:
            self._skip_until = position + left
