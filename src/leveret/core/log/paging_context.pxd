cimport cython

from leveret.core.log.journal cimport Journal


@cython.final
cdef class PagingContext:
    cdef readonly Journal pager
    cdef public Py_ssize_t window_bytes
    cdef public Py_ssize_t window_count
    cdef object want
    cdef public bint pressed
