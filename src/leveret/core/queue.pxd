cimport cython

from leveret.core.contract cimport ACCEPTED, Entry, Queue, Subscriber, make_entry
from leveret.core.message cimport Message
from leveret.core.ready cimport ReadyList
from leveret.core.rota cimport Rota


cdef class ClassicQueue(Queue):
    cdef ReadyList ready
    cdef Rota rota
    cdef readonly Py_ssize_t unacked_count
    cdef readonly long long unacked_bytes
    cdef readonly unsigned long long published_total
    cdef readonly unsigned long long delivered_total
    cdef readonly unsigned long long redelivered_total
    cdef readonly unsigned long long settled_total
    cdef readonly unsigned long long requeued_total
    cdef readonly unsigned long long discarded_total

    @cython.locals(subscriber=Subscriber, entry=Entry)
    cpdef int publish(self, Message message) except -1
    cpdef int lend(self, Subscriber subscriber, Entry entry) except -1
    @cython.locals(entry=Entry, message=Message)
    cpdef int give(self, Subscriber subscriber) except -1
    @cython.locals(subscriber=Subscriber)
    cpdef int dispatch(self) except -1
    cpdef int get(self, Subscriber getter) except -1
    cpdef int leave(self, Entry entry) except -1
    @cython.locals(candidate=Subscriber)
    cpdef int activate_next(self) except -1
