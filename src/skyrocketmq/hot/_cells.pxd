from libc.stdint cimport int32_t, int64_t

cdef Py_ssize_t CELL_BYTES
cdef Py_ssize_t CELL_LOG_OFFSET_AT
cdef Py_ssize_t CELL_SIZE_AT
cdef Py_ssize_t CELL_TAGS_CODE_AT
cdef int64_t CELL_FILLER_SIZE
cdef int64_t CELL_UNIT_ADDRESS_MAX


cdef class TagCodes:
    cdef bytes _sorted  # 64-bit numbers of this machine
    cdef Py_ssize_t _count

    cdef bint _holds(self, int64_t code) noexcept
    cpdef bint matches(self, int64_t tags_code) noexcept


cdef class CellLimits:
    cdef readonly int64_t bytes_max
    cdef readonly int64_t count_max
    cdef readonly int64_t disk_bytes_max
    cdef readonly int64_t disk_count_max
    cdef readonly int64_t memory_bytes
    cdef readonly int64_t file_bytes


cdef class CellScan:
    cdef CellLimits _limits
    cdef TagCodes _tags
    cdef object _files
    cdef int64_t _count_max
    cdef int64_t _log_begin
    cdef int64_t _log_end
    cdef int64_t _disk_end
    cdef int64_t _own_from
    cdef int64_t _run_end
    cdef int64_t _skip_until
    cdef int64_t _file_start  # the file that is known to be there; -1 for none
    cdef bint _skips_all
    cdef bint _stops_at_units
    cdef bytes _bounds  # begin and end of each run, 64-bit numbers of this machine
    cdef Py_ssize_t _run_count
    cdef readonly int64_t taken
    cdef readonly int64_t taken_bytes
    cdef readonly int64_t looked_at
    cdef readonly int64_t position
    cdef readonly bint has_removed
    cdef readonly bint is_full
    cdef readonly list places

    cdef Py_ssize_t _scan(
        self, const unsigned char *data, Py_ssize_t at, Py_ssize_t length, object unit_code, bytes wanted
    ) except -1
    cdef int _make_room(self, Py_ssize_t count) except -1
    cdef bint _is_too_much(self, int64_t position, int64_t size) noexcept
    cdef bint _has(self, int64_t position, int64_t size) except -1
    cdef int _take(self, int64_t position, int64_t size) except -1
    cdef void _skip_file_of(self, int64_t position) noexcept
