# Big-endian numbers and byte runs, inlined into every compiled module that cimports them.
# The interpreted twin is pure_octets.py; a module imports that one only when it is not compiled.
# Nothing here checks a bound: callers have compared the declared length with what they hold.

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcmp, memcpy, memset

cdef inline unsigned int read_u16(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (p[at] << 8) | p[at + 1]

cdef inline unsigned int read_u32(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return ((<unsigned int> p[at]) << 24) | (p[at + 1] << 16) | (p[at + 2] << 8) | p[at + 3]

cdef inline unsigned long long read_u64(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return ((<unsigned long long> read_u32(p, at)) << 32) | read_u32(p, at + 4)

cdef inline void write_u16(unsigned char* p, Py_ssize_t at, unsigned int value) noexcept nogil:
    p[at] = (value >> 8) & 0xFF
    p[at + 1] = value & 0xFF

cdef inline void write_u32(unsigned char* p, Py_ssize_t at, unsigned int value) noexcept nogil:
    p[at] = (value >> 24) & 0xFF
    p[at + 1] = (value >> 16) & 0xFF
    p[at + 2] = (value >> 8) & 0xFF
    p[at + 3] = value & 0xFF

cdef inline void write_u64(unsigned char* p, Py_ssize_t at, unsigned long long value) noexcept nogil:
    write_u32(p, at, <unsigned int> (value >> 32))
    write_u32(p, at + 4, <unsigned int> value)

cdef inline void copy_octets(unsigned char* to, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t count) noexcept nogil:
    memcpy(to + at, source + start, count)

cdef inline void clear_octets(unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    memset(p + start, 0, end - start)

cdef inline bint same_octets(const unsigned char* a, Py_ssize_t a_at, const unsigned char* b, Py_ssize_t b_at, Py_ssize_t count) noexcept nogil:
    return memcmp(a + a_at, b + b_at, count) == 0

cdef inline bytes take(const unsigned char* p, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char*> p + start, end - start)
