from libc.stdint cimport int32_t, int64_t

cdef Py_ssize_t CELL_BYTES
cdef Py_ssize_t CELL_LOG_OFFSET_AT
cdef Py_ssize_t CELL_SIZE_AT
cdef int NAME_END
cdef int PAIR_END
cdef Py_ssize_t RECORD_BODY_LENGTH_AT
cdef int32_t RECORD_BORN_IPV6
cdef Py_ssize_t RECORD_BYTES_MIN
cdef Py_ssize_t RECORD_HEAD_BYTES
cdef Py_ssize_t RECORD_IPV6_BYTES
cdef int32_t RECORD_STORE_IPV6
cdef Py_ssize_t RECORD_SYS_FLAG_AT


cdef class Condition:
    cdef int look(self, list values) except -2


cdef class Junction(Condition):
    cdef list _conditions
    cdef int _stop_at


cdef class Negation(Condition):
    cdef Condition _condition


cdef class IsMissing(Condition):
    cdef Py_ssize_t _slot


cdef class IsIn(Condition):
    cdef Py_ssize_t _slot
    cdef frozenset _texts


cdef class Compared(Condition):
    cdef Py_ssize_t _slot
    cdef int _sign
    cdef object _read
    cdef Py_ssize_t _digits_sure
    cdef bint _is_decimal
    cdef double _decimal
    cdef int64_t _whole

    cdef int _look_at_decimal(self, double found) except -2


cdef class Asked(Condition):
    cdef object _function


cdef int _compare(int sign, int order) noexcept
cdef bint _are_digits(const char *text, Py_ssize_t at, Py_ssize_t end) noexcept
cdef bint _is_decimal(const char *text, Py_ssize_t length) noexcept


cdef class PropertyReader:
    cdef dict _slots  # where the value of each name goes
    cdef list _places  # the same in the order of the names that were given
    cdef bint _is_plain  # no name was given twice
    cdef char _firsts[256]  # whether a name begins with this byte

    cdef char _wants(self, Condition condition, const unsigned char *record, Py_ssize_t size) except -1
    cdef list _row(self, const unsigned char *record, Py_ssize_t size)
    cdef list _values(self, const unsigned char *text, Py_ssize_t length)
