from libc.stdint cimport int64_t

from skyrocketmq.hot._record_batch cimport Growing

cdef Py_ssize_t BINARY_BYTES_MIN
cdef Py_ssize_t BINARY_CODE_AT
cdef Py_ssize_t BINARY_FLAG_AT
cdef Py_ssize_t BINARY_LANGUAGE_AT
cdef Py_ssize_t BINARY_OPAQUE_AT
cdef Py_ssize_t BINARY_REMARK_AT
cdef Py_ssize_t BINARY_VERSION_AT
cdef Py_ssize_t FRAME_HEADER_AT
cdef Py_ssize_t FRAME_LENGTH_BYTES
cdef Py_ssize_t FRAME_WORD_AT
cdef int64_t HEADER_BINARY
cdef int TICKET_BINARY
cdef Py_ssize_t TICKET_BYTES
cdef Py_ssize_t TICKET_KIND_AT
cdef Py_ssize_t TICKET_LOG_OFFSET_AT
cdef Py_ssize_t TICKET_OPAQUE_AT
cdef Py_ssize_t TICKET_QUEUE_ID_AT
cdef Py_ssize_t TICKET_QUEUE_OFFSET_AT

cdef enum:
    NUMBERS_BYTES = 128  # room for all that differs between two answers: four numbers and their lengths


cdef class SendAnswers:
    cdef bytes _json_start
    cdef bytes _json_end
    cdef bytes _fields
    cdef int64_t _version

    cdef Py_ssize_t _put_json(self, unsigned char *answer, const unsigned char *ticket, int64_t code) noexcept
    cdef Py_ssize_t _put_binary(
        self, unsigned char *answer, const unsigned char *ticket, int64_t code, int64_t language
    ) noexcept


cdef Py_ssize_t put_bytes(unsigned char *out, Py_ssize_t at, bytes text) noexcept
cdef Py_ssize_t put_number(unsigned char *out, Py_ssize_t at, int64_t value) noexcept
cdef Py_ssize_t put_hex(unsigned char *out, Py_ssize_t at, int64_t value) noexcept
cdef Py_ssize_t put_field(unsigned char *out, Py_ssize_t at, bytes name, int64_t value) noexcept
