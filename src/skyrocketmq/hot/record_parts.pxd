# Where the parts of one record are: what a reader has found and measured.

from libc.stdint cimport int64_t


cdef struct Parts:  # of one record; offsets count from its beginning
    int64_t total
    int64_t sys_flag
    int64_t store_time_at
    int64_t prepared_at
    int64_t body_at
    int64_t body_bytes
    int64_t topic_at
    int64_t topic_bytes
    int64_t properties_at
    int64_t properties_bytes


cdef struct Text:
    const unsigned char *at
    Py_ssize_t size  # 0 for none


cdef struct Properties:
    Text unique_key
    Text keys
    Text tags
    Text delay
