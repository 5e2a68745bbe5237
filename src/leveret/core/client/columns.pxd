cimport cython
from libc.string cimport memcpy

from leveret.core.codec.buffers cimport grow
from leveret.core.codec.octets cimport copy_octets, take

cdef Py_ssize_t FIRST_BYTES

# Arrow's numbers are those of the machine that reads them, which is this one.
cdef inline void put_little32(unsigned char* p, Py_ssize_t at, int value) noexcept nogil:
    memcpy(p + at, &value, 4)

cdef inline void put_little64(unsigned char* p, Py_ssize_t at, long long value) noexcept nogil:
    memcpy(p + at, &value, 8)


@cython.final
cdef class Presence:
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t nulls
    cdef bytearray bits

    @cython.locals(row=Py_ssize_t, p="unsigned char*", bit=Py_ssize_t)
    cdef int note(self, bint present) except -1
    @cython.locals(p="const unsigned char*", bits=bytes)
    cpdef tuple take(self)


@cython.final
cdef class OctetColumn:
    cdef readonly Presence presence
    cdef bytearray data
    cdef readonly Py_ssize_t size
    cdef bytearray ends

    @cython.locals(count=Py_ssize_t, size=Py_ssize_t, to="unsigned char*")
    cdef int put(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(i=Py_ssize_t, octets=bytes, source="const unsigned char*")
    cdef int put_text(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(source="const unsigned char*")
    cpdef int put_octets(self, bytes octets) except -1
    cpdef int put_null(self) except -1
    @cython.locals(at=Py_ssize_t, to="unsigned char*")
    cdef int note_end(self) except -1
    @cython.locals(rows=Py_ssize_t, ends="const unsigned char*", data="const unsigned char*")
    cpdef tuple take(self)


@cython.final
cdef class NumberColumn:
    cdef readonly Presence presence
    cdef bytearray data

    @cython.locals(at=Py_ssize_t, to="unsigned char*")
    cpdef int put(self, long long value) except -1
    @cython.locals(at=Py_ssize_t)
    cpdef int put_null(self) except -1
    @cython.locals(rows=Py_ssize_t, data="const unsigned char*")
    cpdef tuple take(self)
