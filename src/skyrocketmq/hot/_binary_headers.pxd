cdef Py_ssize_t BINARY_BYTES_MIN
cdef Py_ssize_t BINARY_CODE_AT
cdef Py_ssize_t BINARY_FLAG_AT
cdef Py_ssize_t BINARY_NAME_LENGTH_BYTES
cdef Py_ssize_t BINARY_OPAQUE_AT
cdef Py_ssize_t BINARY_REMARK_AT
cdef Py_ssize_t BINARY_VALUE_LENGTH_BYTES
cdef Py_ssize_t BINARY_VERSION_AT
cdef Py_ssize_t START_BYTES
cdef Py_ssize_t MORE_BYTES

cdef Py_ssize_t _put_text(char *out, Py_ssize_t size, const unsigned char *text, Py_ssize_t length) noexcept
cdef bint _is_plain(const unsigned char *text, Py_ssize_t length) noexcept
