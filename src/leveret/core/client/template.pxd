cimport cython

from leveret.core.codec.properties cimport MESSAGE_ID

cdef unsigned int AFTER_ID
cdef Py_ssize_t SHORT_MAX
cdef tuple SIZES


@cython.final
cdef class Template:
    # With a message id: flags and what stands before it, and what stands after it. Without one: all.
    cdef bytes head
    cdef bytes tail
    cdef bytes plain

    @cython.locals(size=Py_ssize_t, octet=bytes)
    cpdef bytes fill(self, bytes message_id)
