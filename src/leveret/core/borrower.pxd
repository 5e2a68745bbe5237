cimport cython

from leveret.core.contract cimport EMPTY, LATER, Entry, Queue, Subscriber
from leveret.core.message cimport Message


@cython.final
cdef class Borrower(Subscriber):
    cdef readonly Entry taken
    cdef list kept
    cdef Py_ssize_t returned_count

    @cython.locals(answer=int)
    cpdef object fetch(self)
    @cython.locals(entry=Entry)
    cpdef int settle(self) except -1
    @cython.locals(entry=Entry, message=Message)
    cpdef int keep(self) except -1
    @cython.locals(entry=Entry, end=Py_ssize_t)
    cpdef bint put_back(self, Py_ssize_t count) except -1
    @cython.locals(entry=Entry)
    cpdef int give_back_taken(self) except -1
    cpdef Py_ssize_t kept_count(self) except -1
    @cython.locals(entry=Entry)
    cpdef int collect_located(self, unsigned long long number, dict found) except -1
