from libc.stdint cimport int64_t, uint32_t

from skyrocketmq.hot.record_parts cimport Parts, Properties, Text

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
cdef int64_t RECORD_BORN_IPV6
cdef int64_t RECORD_BYTES_MIN
cdef Py_ssize_t RECORD_CRC_AT
cdef int64_t RECORD_CRC_MASK
cdef Py_ssize_t RECORD_HEAD_BYTES
cdef Py_ssize_t RECORD_IPV6_BYTES
cdef Py_ssize_t RECORD_LOG_OFFSET_AT
cdef int64_t RECORD_MAGIC
cdef Py_ssize_t RECORD_MAGIC_AT
cdef Py_ssize_t RECORD_PREPARED_AT
cdef int64_t RECORD_PROPERTIES_BYTES_MAX
cdef Py_ssize_t RECORD_PROPERTIES_LENGTH_BYTES
cdef Py_ssize_t RECORD_QUEUE_ID_AT
cdef Py_ssize_t RECORD_QUEUE_OFFSET_AT
cdef int64_t RECORD_ROLLED_BACK
cdef int64_t RECORD_STORE_IPV6
cdef Py_ssize_t RECORD_STORE_TIME_AT
cdef Py_ssize_t RECORD_SYS_FLAG_AT
cdef int64_t RECORD_TOPIC_BYTES_MAX
cdef Py_ssize_t RECORD_TOPIC_LENGTH_BYTES
cdef Py_ssize_t RECORD_TOTAL_AT
cdef int64_t RECORD_TRANSACTION_BITS
cdef int64_t RECORD_UNQUEUED
cdef bytes DELAY_PROPERTY
cdef bytes KEYS_PROPERTY
cdef bytes SCHEDULE_TOPIC
cdef bytes TAGS_PROPERTY
cdef bytes UNIQ_KEY_PROPERTY
cdef int64_t UNKNOWN_LEVEL_MS
cdef int64_t CRC_LONG_BYTES
cdef int64_t LAST_OFFSET
cdef object crc32_long
cdef object crc32_short
cdef object new_tuple


cdef class OpenRun:
    cdef bytes topic
    cdef int64_t queue_id
    cdef int64_t first
    cdef int64_t next
    cdef bytearray cells
    cdef bint has_start  # else messages of the topic have no place anywhere
    cdef bint is_schedule
    cdef uint32_t start


cdef bint _is_whole(const unsigned char *record, int64_t left, Parts *parts) noexcept
cdef bint _matches_crc(const unsigned char *record, Parts *parts) except -1
cdef OpenRun _run_of(dict runs, const unsigned char *record, Parts *parts, object topics)
cdef void _read_properties(const unsigned char *text, Py_ssize_t size, Properties *found) noexcept
cdef bint _is_named(const unsigned char *name, Py_ssize_t size, bytes wanted) noexcept
cdef int _add_keys(
    bytearray packed, const unsigned char *record, Parts *parts, Properties *found, uint32_t start
) except -1
cdef int _add_key(
    bytearray packed, const unsigned char *text, Py_ssize_t size, uint32_t start, int64_t log_offset, int64_t store_ms
) except -1
cdef int64_t _tags_code(
    Properties *found, bint is_schedule, int64_t store_ms, object delay_levels_ms
) except? -0x7FFFFFFFFFFFFFFF
cdef int64_t _level(Text *digits, int64_t level_max) noexcept
cdef int _add_cell(bytearray cells, int64_t log_offset, int64_t size, int64_t tags_code) except -1
cdef uint32_t _hash_at(const unsigned char *text, Py_ssize_t size, uint32_t value) except? 0xFFFFFFFF
