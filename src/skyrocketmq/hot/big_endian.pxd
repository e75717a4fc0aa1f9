# Numbers in bytes, as files and frames have them. Nothing here checks a length: the caller has.
# Written out by shifts, which compilers know: each becomes one load or store, and one swap.

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t


cdef inline uint16_t uint16_at(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return <uint16_t>((<uint16_t>data[at] << 8) | data[at + 1])


cdef inline uint32_t uint32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return (
        (<uint32_t>data[at] << 24) | (<uint32_t>data[at + 1] << 16) | (<uint32_t>data[at + 2] << 8) | data[at + 3]
    )


cdef inline int32_t int32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return <int32_t>uint32_at(data, at)


cdef inline int64_t int64_at(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return <int64_t>((<uint64_t>uint32_at(data, at) << 32) | uint32_at(data, at + 4))


cdef inline void put_uint16(unsigned char *data, Py_ssize_t at, uint32_t value) noexcept nogil:
    data[at] = <unsigned char>(value >> 8)
    data[at + 1] = <unsigned char>value


cdef inline void put_int32(unsigned char *data, Py_ssize_t at, int64_t value) noexcept nogil:
    cdef uint32_t bits = <uint32_t>value
    data[at] = <unsigned char>(bits >> 24)
    data[at + 1] = <unsigned char>(bits >> 16)
    data[at + 2] = <unsigned char>(bits >> 8)
    data[at + 3] = <unsigned char>bits


cdef inline void put_int64(unsigned char *data, Py_ssize_t at, int64_t value) noexcept nogil:
    put_int32(data, at, value >> 32)
    put_int32(data, at + 4, value)
