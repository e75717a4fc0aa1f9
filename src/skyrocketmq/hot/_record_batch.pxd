from libc.stdint cimport int32_t, int64_t, uint32_t

cdef Py_ssize_t CRC_LONG_FROM
cdef int KEYS_MAX
cdef int64_t NEVER
cdef int64_t FULL
cdef int64_t LONG_PROPERTIES
cdef int64_t MANY_KEYS

cdef Py_ssize_t CELL_BYTES
cdef Py_ssize_t CELL_LOG_OFFSET_AT
cdef Py_ssize_t CELL_SIZE_AT
cdef Py_ssize_t CELL_TAGS_CODE_AT
cdef Py_ssize_t KEY_BYTES
cdef Py_ssize_t KEY_HASH_AT
cdef Py_ssize_t KEY_LOG_OFFSET_AT
cdef Py_ssize_t KEY_STORE_TIME_AT
cdef int KEYS_SEPARATOR
cdef int NAME_END
cdef int PAIR_END
cdef Py_ssize_t RECORD_BODY_LENGTH_AT
cdef Py_ssize_t RECORD_BORN_HOST_AT
cdef int64_t RECORD_BORN_IPV6
cdef Py_ssize_t RECORD_BORN_TIME_AT
cdef Py_ssize_t RECORD_BYTES_MIN
cdef Py_ssize_t RECORD_CRC_AT
cdef int64_t RECORD_CRC_MASK
cdef Py_ssize_t RECORD_FLAG_AT
cdef Py_ssize_t RECORD_HEAD_BYTES
cdef Py_ssize_t RECORD_HOST_BYTES
cdef Py_ssize_t RECORD_LOG_OFFSET_AT
cdef int64_t RECORD_MAGIC
cdef Py_ssize_t RECORD_MAGIC_AT
cdef Py_ssize_t RECORD_PREPARED_AT
cdef Py_ssize_t RECORD_PROPERTIES_BYTES_MAX
cdef Py_ssize_t RECORD_QUEUE_ID_AT
cdef Py_ssize_t RECORD_QUEUE_OFFSET_AT
cdef Py_ssize_t RECORD_RECONSUMED_AT
cdef int64_t RECORD_ROLLED_BACK
cdef Py_ssize_t RECORD_STORE_HOST_AT
cdef int64_t RECORD_STORE_IPV6
cdef Py_ssize_t RECORD_STORE_TIME_AT
cdef Py_ssize_t RECORD_SYS_FLAG_AT
cdef Py_ssize_t RECORD_TOTAL_AT
cdef int64_t RECORD_UNQUEUED


cdef class QueueTail:
    cdef readonly bytes topic_bytes
    cdef readonly int64_t key_start
    cdef readonly int64_t queue_id
    cdef public int64_t next_offset
    cdef public int64_t extend_at
    cdef public bint is_watched
    cdef public bint is_touched
    cdef public bytearray pending


# Bytes that grow: what was reserved is the caller's to write, up to the next call.
cdef class Growing:
    cdef unsigned char *data
    cdef Py_ssize_t used
    cdef Py_ssize_t room

    cdef unsigned char *reserve(self, Py_ssize_t more) except NULL
    cdef bytes take(self)


# What `scan` found in a text of properties: places in it, each with its length; 0 for what is not there.
cdef struct Scanned:
    Py_ssize_t tags_at
    Py_ssize_t tags_bytes
    Py_ssize_t unique_at
    Py_ssize_t unique_bytes
    Py_ssize_t keys_at
    Py_ssize_t keys_bytes
    Py_ssize_t key_count


cdef void scan(const unsigned char *text, Py_ssize_t size, Scanned *found) noexcept
cdef Py_ssize_t count_keys(const unsigned char *text, Py_ssize_t size) noexcept
cdef uint32_t hash_text(const unsigned char *text, Py_ssize_t size, uint32_t start) except? 0xFFFFFFFF
cdef int64_t crc_of(const unsigned char *body, Py_ssize_t size) except -1


cdef class RecordBatch:
    cdef readonly list touched
    cdef readonly list crossed
    cdef readonly list vouched
    cdef readonly list arrivals
    cdef readonly int64_t count
    cdef readonly int64_t key_count
    cdef readonly int64_t position
    cdef Growing _records
    cdef Growing _keys
    cdef int64_t _now_ms
    cdef int64_t _limit

    cdef int64_t put(
        self,
        QueueTail queue,
        const unsigned char *properties,
        Py_ssize_t properties_bytes,
        const unsigned char *body,
        Py_ssize_t body_bytes,
        int64_t flag,
        int64_t sys_flag,
        int64_t born_ms,
        bytes born_host,
        bytes store_host,
        int64_t reconsume_times,
        int64_t prepared_offset,
        bint has_cell_code,
        int64_t cell_code,
    ) except? -9
    cdef int _put_cell(self, QueueTail queue, int64_t position, int64_t total, int64_t code) except -1
    cdef int _put_key(
        self, QueueTail queue, const unsigned char *key, Py_ssize_t key_bytes, int64_t position
    ) except -1
