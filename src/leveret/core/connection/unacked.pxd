cimport cython

from leveret.core.queue.contract cimport Entry, Queue, Subscriber


cdef Py_ssize_t HOLES_MIN, LOOKED_AT_MAX


@cython.final
cdef class Unacked:
    cdef list slots
    cdef Py_ssize_t head
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t paged

    cpdef int add(self, Entry entry) except -1
    @cython.locals(first=Entry, probe=Entry, distance="unsigned long long", room="unsigned long long", low=Py_ssize_t, high=Py_ssize_t, mid=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t find(self, unsigned long long tag)
    @cython.locals(at=Py_ssize_t, entry=Entry)
    cpdef Entry take(self, unsigned long long tag)
    @cython.locals(entry=Entry)
    cpdef Entry take_first(self, unsigned long long tag_max)
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, mid=Py_ssize_t, at=Py_ssize_t, probe=Entry)
    cdef Py_ssize_t index_above(self, unsigned long long tag)
    @cython.locals(at=Py_ssize_t, probe=Entry)
    cpdef unsigned long long first_above(self, unsigned long long tag)
    @cython.locals(at=Py_ssize_t, probe=Entry)
    cpdef list between(self, unsigned long long tag, unsigned long long tag_max)
    @cython.locals(freed=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, entry=Entry, holder=Subscriber, queue=Queue)
    cpdef Py_ssize_t page_out(self, Py_ssize_t bytes_max, unsigned long long tag_max) except -1
    cpdef int settle_down(self) except -1
    cpdef int restore(self, list entries) except -1
    cpdef list entries(self)
