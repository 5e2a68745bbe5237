cimport cython

from leveret.core.codec.message cimport Message


@cython.final
cdef class Tap:
    cdef object wanted
    cdef dict known
    cdef Py_ssize_t truncate
    cdef Py_ssize_t count_max
    cdef Py_ssize_t bytes_max
    cdef list seen
    cdef Py_ssize_t seen_bytes
    cdef readonly Py_ssize_t allowance
    cdef readonly unsigned long long matched_total
    cdef readonly unsigned long long missed_total
    cdef Tap following

    @cython.locals(body=bytes)
    cpdef int see(self, Message message) except -1
    cdef bint wants(self, Message message) except -1
    cpdef list take(self, Py_ssize_t allowance)


cpdef Tap with_tap(Tap first, Tap tap)

@cython.locals(at=Tap, rest=Tap)
cpdef Tap without_tap(Tap first, Tap tap)
