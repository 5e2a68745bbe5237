cimport cython

cdef Py_ssize_t BUFFERS_MAX, BYTES_MAX, FIRST_BYTES


@cython.final
cdef class Buffers:
    cdef list kept
    cdef readonly Py_ssize_t kept_bytes

    @cython.locals(data=bytearray)
    cpdef bytearray take(self, Py_ssize_t size)
    cpdef object give(self, bytearray data)
