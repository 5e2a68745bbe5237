cimport cython

from leveret.core.connection.channel cimport Channel
from leveret.core.connection.consumer cimport Consumer
from leveret.core.queue.contract cimport Entry, Queue, Subscriber

cdef Py_ssize_t COMPACT_AT


cpdef long long own_timeout(Subscriber subscriber) except -2
cpdef long long effective_timeout(long long own_ms, Queue queue, long long default_ms) except -2


@cython.final
cdef class AckWatch:
    cdef Channel channel
    cdef long long default_ms
    cdef readonly list marks
    cdef Py_ssize_t compact_at
    cdef double mark_at
    cdef readonly dict sources
    cdef set in_force
    cdef Py_ssize_t rebuild_at
    cdef dict swept

    cpdef bint add(self, Subscriber subscriber) except -1
    @cython.locals(consumer=Consumer, entry=Entry)
    cpdef object rebuild(self)
    @cython.locals(own_ms="long long", timeout_ms="long long")
    cdef object note(self, Subscriber subscriber)
    @cython.locals(timeout_ms="long long", changed=bint)
    cdef object refresh(self)
    cpdef list look(self, double now)
    @cython.locals(entry=Entry, holder=Subscriber)
    cdef list select(self, unsigned long long tag, unsigned long long tag_max, long long timeout_ms)
    cpdef object timeout_of(self, Entry entry)
    @cython.locals(first="unsigned long long", last_tag="unsigned long long", useless=Py_ssize_t)
    cdef object mark(self, double now)
    @cython.locals(first="unsigned long long")
    cdef object compact(self)
    cdef double interval(self) except -1
    cpdef object wait_ms(self, double now)
