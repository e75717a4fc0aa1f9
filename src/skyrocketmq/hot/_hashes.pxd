from libc.stdint cimport int64_t, uint32_t

cdef int64_t positive_hash(bytes key, int64_t start) except -1
cdef uint32_t hash_of(object text, uint32_t value) except? 0xFFFFFFFF
cdef uint32_t _hash_of_wide(object text, uint32_t value) except? 0xFFFFFFFF
