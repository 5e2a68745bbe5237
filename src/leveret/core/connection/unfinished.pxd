cimport cython

from leveret.core.codec.methods cimport PUBLISH


cdef Py_ssize_t MESSAGE_BYTES


@cython.final
cdef class UnfinishedTotal:
    cdef readonly unsigned long long held
    cdef public unsigned long long held_max
    cdef public unsigned long long connection_held_max
    cdef public object guardian


@cython.final
cdef class Unfinished:
    cdef UnfinishedTotal total
    cdef readonly unsigned long long held

    @cython.locals(total=UnfinishedTotal)
    cpdef int take(self, unsigned long long size) except -1
    @cython.locals(total=UnfinishedTotal)
    cpdef int hold(self, unsigned long long size) except -1
    cpdef int give(self, unsigned long long size) except -1
