from libc.stdint cimport int64_t

cdef Py_ssize_t BATCH_BODY_LENGTH_AT
cdef Py_ssize_t BATCH_ENTRY_BYTES_MIN
cdef Py_ssize_t BATCH_FLAG_AT
cdef Py_ssize_t BATCH_HEAD_BYTES
cdef Py_ssize_t BATCH_PROPERTIES_LENGTH_BYTES

cdef bytes _cut(const unsigned char *data, Py_ssize_t size)
