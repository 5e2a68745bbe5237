cimport cython

from leveret.core.journal cimport Journal


@cython.final
cdef class Shelf:
    cdef readonly Journal pager
    cdef public Py_ssize_t window_bytes
    cdef object want
    cdef public bint pressed
