cimport cython

from leveret.core.queue.contract cimport Subscriber
from leveret.core.queue.ring cimport Ring


@cython.final
cdef class ConsumerRing:
    # Rings of waiting subscribers, highest priority first; priorities holds each ring's priority.
    cdef Subscriber alone
    cdef bint paused
    cdef list rings
    cdef list priorities
    cdef list left

    @cython.locals(i=Py_ssize_t, ring=Ring)
    cpdef int add(self, Subscriber subscriber) except -1
    @cython.locals(i=Py_ssize_t, ring=Ring)
    cdef bint is_empty(self)
    @cython.locals(i=Py_ssize_t, ring=Ring, subscriber=Subscriber)
    cpdef Subscriber next(self)
    @cython.locals(ring=Ring, first=Subscriber)
    cpdef int pause(self, bint paused) except -1
    @cython.locals(i=Py_ssize_t, ring=Ring, other=Subscriber, others=list)
    cpdef int remove(self, Subscriber subscriber) except -1
