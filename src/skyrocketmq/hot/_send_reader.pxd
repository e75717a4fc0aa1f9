from libc.stdint cimport int32_t, int64_t

from skyrocketmq.hot._record_batch cimport Growing, QueueTail, RecordBatch

cdef Py_ssize_t BINARY_BYTES_MIN
cdef Py_ssize_t BINARY_CODE_AT
cdef Py_ssize_t BINARY_FLAG_AT
cdef Py_ssize_t BINARY_NAME_LENGTH_BYTES
cdef Py_ssize_t BINARY_OPAQUE_AT
cdef Py_ssize_t BINARY_REMARK_AT
cdef Py_ssize_t BINARY_VALUE_LENGTH_BYTES
cdef Py_ssize_t FRAME_HEADER_AT
cdef Py_ssize_t FRAME_LENGTH_BYTES
cdef int64_t FRAME_LENGTH_MAX
cdef Py_ssize_t FRAME_WORD_AT
cdef int64_t HEADER_BINARY
cdef int64_t HEADER_LENGTH_MASK
cdef int NAME_END
cdef int PAIR_END
cdef int64_t RECORD_UNQUEUED
cdef int TICKET_BINARY
cdef Py_ssize_t TICKET_BYTES
cdef int TICKET_HASTY
cdef Py_ssize_t TICKET_KIND_AT
cdef Py_ssize_t TICKET_LOG_OFFSET_AT
cdef Py_ssize_t TICKET_OPAQUE_AT
cdef Py_ssize_t TICKET_QUEUE_ID_AT
cdef Py_ssize_t TICKET_QUEUE_OFFSET_AT

cdef int END
cdef int ENOUGH
cdef int NO_ROOM
cdef int OTHER
cdef int UNKNOWN
cdef int64_t FULL
cdef int64_t KEYS_AT_ONCE
cdef int64_t SENDS_AT_ONCE
cdef int64_t ONEWAY_BIT
cdef int64_t RESPONSE_BIT
cdef int64_t SEND_CODE

cdef enum:
    NAMES_MAX = 64  # properties of an ordinary send; more are compared in the general way


# What a header says. Texts are places in the received bytes; 0 bytes for what is not there.
cdef struct Header:
    int64_t code
    int64_t opaque
    int64_t flag
    int64_t seen  # a bit for each field of a send, 1 << (letter - 'a')
    int64_t queue_id
    int64_t sys_flag
    int64_t born_ms
    int64_t user_flag
    int64_t reconsume_times
    Py_ssize_t topic_at
    Py_ssize_t topic_bytes
    Py_ssize_t text_at
    Py_ssize_t text_bytes
    bint is_text_escaped
    bint is_batch


# A JSON value: where its text stands, and where the reader goes on; -1 if it is none that is read here.
cdef struct Value:
    Py_ssize_t at
    Py_ssize_t end
    Py_ssize_t next
    bint is_text
    bint is_null
    bint is_escaped


cdef class SendTopic:
    cdef readonly int64_t extra_sys_flag
    cdef readonly list queues


cdef class SendReader:
    cdef readonly dict topics
    cdef readonly bytes cluster
    cdef readonly bytes store_host
    cdef readonly int64_t body_bytes_max
    cdef readonly int stop
    cdef readonly int64_t needed
    cdef readonly bytes unknown_topic
    cdef readonly int64_t unknown_queue
    cdef readonly bint has_hasty
    cdef bytes _cluster_pair
    cdef bint _is_wide  # the JSON header has bytes that are not ASCII
    cdef bint _waits
    cdef Growing _tickets
    cdef Growing _unescaped
    cdef Growing _stored

    cdef int _add(
        self,
        bytes data,
        Py_ssize_t at,
        Py_ssize_t body_at,
        Py_ssize_t end,
        bint is_binary,
        RecordBatch batch,
        bytes born_host,
    ) except -1
    cdef int _store_properties(self, const unsigned char *text, Py_ssize_t size) except -1
    cdef int _unescape(self, const unsigned char *text, Py_ssize_t size) except -1
    cdef bint _read_json(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, Header *header) noexcept
    cdef Py_ssize_t _read_json_fields(
        self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, Header *header
    ) noexcept
    cdef void _read_value(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, Value *value) noexcept
    cdef void _read_text(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, Value *value) noexcept


cdef bint is_utf8(const unsigned char *text, Py_ssize_t size)
cdef bint read_binary(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, Header *header) noexcept
cdef bint set_field(const unsigned char *data, int letter, Py_ssize_t at, Py_ssize_t end, Header *header) noexcept
cdef bint read_int(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, int64_t lowest, int64_t highest, int64_t *number
) noexcept
cdef Py_ssize_t skip_blanks(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept
cdef int hex_digit(int character) noexcept
