cimport cython


cdef Py_ssize_t KEPT_SLOTS_MAX, FIRST_SLOTS


@cython.final
cdef class Ring:
    cdef list slots
    cdef Py_ssize_t head
    cdef Py_ssize_t mask
    cdef readonly Py_ssize_t count

    @cython.locals(slots=list, size=Py_ssize_t, i=Py_ssize_t)
    cdef int grow(self) except -1
    cpdef object push(self, object item)
    cpdef object pop(self)
    cpdef object peek(self)
    cpdef object clear(self)
    cpdef list items(self)
