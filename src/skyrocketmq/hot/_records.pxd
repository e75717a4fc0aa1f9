from libc.stdint cimport int64_t

cdef Py_ssize_t RECORD_BODY_LENGTH_AT
cdef Py_ssize_t RECORD_BORN_HOST_AT
cdef Py_ssize_t RECORD_BORN_TIME_AT
cdef int64_t RECORD_BYTES_MIN
cdef Py_ssize_t RECORD_CRC_AT
cdef Py_ssize_t RECORD_FLAG_AT
cdef Py_ssize_t RECORD_HEAD_BYTES
cdef Py_ssize_t RECORD_HOST_BYTES
cdef Py_ssize_t RECORD_LOG_OFFSET_AT
cdef int64_t RECORD_MAGIC
cdef Py_ssize_t RECORD_MAGIC_AT
cdef Py_ssize_t RECORD_PREPARED_AT
cdef Py_ssize_t RECORD_QUEUE_ID_AT
cdef Py_ssize_t RECORD_QUEUE_OFFSET_AT
cdef Py_ssize_t RECORD_RECONSUMED_AT
cdef Py_ssize_t RECORD_STORE_HOST_AT
cdef Py_ssize_t RECORD_STORE_TIME_AT
cdef Py_ssize_t RECORD_SYS_FLAG_AT
cdef Py_ssize_t RECORD_TOTAL_AT
cdef int64_t UNCOMMON_BITS

cdef bytes _cut(const unsigned char *data, Py_ssize_t size)
