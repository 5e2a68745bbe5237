cimport cython

from leveret.core.queue.contract cimport EMPTY, LATER, Entry, Queue, Subscriber
from leveret.core.codec.message cimport Message


@cython.final
cdef class Mover(Subscriber):
    cdef readonly Entry taken
    cdef list kept
    cdef list held
    cdef Py_ssize_t returned_count

    @cython.locals(answer=int)
    cpdef object fetch(self)
    @cython.locals(entry=Entry)
    cpdef int settle(self) except -1
    cpdef int keep(self) except -1
    cpdef int hold(self) except -1
    @cython.locals(entry=Entry, held=list)
    cpdef Py_ssize_t settle_held(self) except -1
    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t keep_held(self) except -1
    @cython.locals(entry=Entry, message=Message)
    cdef Entry lighten(self)
    @cython.locals(entry=Entry, end=Py_ssize_t)
    cpdef bint put_back(self, Py_ssize_t count) except -1
    @cython.locals(entry=Entry)
    cpdef int give_back_taken(self) except -1
    cpdef Py_ssize_t kept_count(self) except -1
    cpdef Py_ssize_t held_count(self) except -1
    @cython.locals(entry=Entry)
    cpdef int collect_located(self, unsigned long long number, dict found) except -1
