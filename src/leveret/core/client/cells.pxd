cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy


# Whoever asks keeps the owner, whose octets stay where they are.
cdef inline const unsigned char* octets_of(object owner) except? NULL:
    cdef Py_buffer view
    cdef const unsigned char* p
    PyObject_GetBuffer(owner, &view, PyBUF_SIMPLE)
    p = <const unsigned char*> view.buf
    PyBuffer_Release(&view)
    return p

cdef inline bint has_bit(const unsigned char* p, Py_ssize_t place) noexcept nogil:
    return p[place >> 3] >> (place & 7) & 1

# Arrow's numbers are those of the machine that reads them, which is this one.
cdef inline long long get_little32(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    cdef int value
    memcpy(&value, p + at, 4)
    return value

cdef inline long long get_little64(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    cdef long long value
    memcpy(&value, p + at, 8)
    return value


@cython.final
cdef class OctetCells:
    cdef readonly Py_ssize_t rows
    cdef object owners
    cdef const unsigned char* p
    cdef const unsigned char* ends
    cdef const unsigned char* bits
    cdef Py_ssize_t first
    cdef bint has_nulls
    cdef bint wide

    cpdef bint is_null(self, Py_ssize_t row) noexcept
    @cython.locals(place=Py_ssize_t)
    cpdef Py_ssize_t start(self, Py_ssize_t row) noexcept


@cython.final
cdef class NumberCells:
    cdef readonly Py_ssize_t rows
    cdef object owners
    cdef const unsigned char* p
    cdef const unsigned char* bits
    cdef Py_ssize_t first
    cdef bint has_nulls

    cpdef bint is_null(self, Py_ssize_t row) noexcept
    cpdef long long value(self, Py_ssize_t row) noexcept


@cython.final
cdef class PairCells:
    cdef readonly OctetCells ends
    cdef readonly OctetCells names
    cdef readonly OctetCells values
