cimport cython

cdef Py_ssize_t LATE_TAGS_MAX, SLACK


@cython.final
cdef class LateTags:
    # An array of unsigned 64-bit numbers
    cdef readonly object tags
    cdef list excused

    cpdef object add(self, unsigned long long tag)
    @cython.locals(at=Py_ssize_t)
    cpdef bint has(self, unsigned long long tag) except -1
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t)
    cpdef Py_ssize_t excuse(self, unsigned long long tag, bint multiple, bint in_transaction) except -1
    cpdef object commit(self)
    cpdef object rollback(self)


cdef object forget_oldest(object tags)
