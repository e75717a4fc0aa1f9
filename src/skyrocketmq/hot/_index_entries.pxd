from libc.stdint cimport int64_t

cdef Py_ssize_t INDEX_ENTRY_BYTES
cdef Py_ssize_t INDEX_HASH_AT
cdef Py_ssize_t INDEX_HEADER_BYTES
cdef Py_ssize_t INDEX_LOG_OFFSET_AT
cdef Py_ssize_t INDEX_PREVIOUS_AT
cdef Py_ssize_t INDEX_SECONDS_AT
cdef int64_t INDEX_SECONDS_MAX
cdef Py_ssize_t INDEX_SLOT_BYTES
cdef Py_ssize_t KEY_BYTES
cdef Py_ssize_t KEY_HASH_AT
cdef Py_ssize_t KEY_LOG_OFFSET_AT
cdef Py_ssize_t KEY_STORE_TIME_AT

cdef int _check_slots(Py_ssize_t mapped_bytes, int64_t slot_count) except -1
cdef int64_t _seconds_since(int64_t begin_ms, int64_t store_ms) noexcept
