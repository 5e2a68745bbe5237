cimport cython

from leveret.core.codec.octets cimport copy_octets

cdef Py_ssize_t BUFFERS_MAX, BYTES_MAX, FIRST_BYTES


@cython.final
cdef class Buffers:
    cdef list kept
    cdef readonly Py_ssize_t kept_bytes

    @cython.locals(data=bytearray)
    cpdef bytearray take(self, Py_ssize_t size)
    cpdef object give(self, bytearray data)


@cython.locals(size=Py_ssize_t, grown=bytearray, to="unsigned char*", source="const unsigned char*")
cpdef bytearray grow(bytearray data, Py_ssize_t used, Py_ssize_t need)
