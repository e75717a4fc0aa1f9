from libc.stdint cimport int64_t, uint64_t

cdef Py_ssize_t DIGITS_MAX
cdef int64_t FRAME_BYTES_MAX
cdef Py_ssize_t FRAME_HEADER_AT
cdef int64_t FRAME_LENGTH_BYTES
cdef int64_t FRAME_LENGTH_MAX
cdef Py_ssize_t FRAME_WORD_AT
cdef uint64_t OFFSET_MAX
cdef int64_t RESPONSE_BIT
cdef uint64_t ID_MAX
cdef unsigned char ZERO
cdef unsigned char NINE
cdef unsigned char LETTERS

cdef struct Text:
    const unsigned char *at
    Py_ssize_t size

cdef struct Cursor:  # what is left to be read of a header
    const unsigned char *at
    const unsigned char *end

cdef struct Fields:  # a text that is not there begins at NULL
    Text msg_id
    Text queue_id
    Text queue_offset
    Text transaction_id
    Text region
    Text trace_on

cdef unsigned char *_put_bytes(unsigned char *to, bytes data) noexcept
cdef unsigned char *_put_number(unsigned char *to, int64_t number) noexcept
cdef Py_ssize_t _escaped_bytes(const unsigned char *text, Py_ssize_t size) noexcept
cdef unsigned char *_put_escaped(unsigned char *to, const unsigned char *text, Py_ssize_t size) noexcept
cdef tuple _read_answer(const unsigned char *header, Py_ssize_t size)
cdef bint _read_fields(Cursor *cursor, Fields *fields) noexcept
cdef bint _take(Cursor *cursor, unsigned char mark) noexcept
cdef void _skip_blanks(Cursor *cursor) noexcept
cdef bint _take_text(Cursor *cursor, Text *text) noexcept
cdef bint _take_int32(Cursor *cursor, int64_t *number) noexcept
cdef bint _take_null(Cursor *cursor) noexcept
cdef bint _is(Text *text, const char *name) noexcept
cdef int64_t _number(Text *text, uint64_t highest) noexcept
cdef object _str(Text *text)
