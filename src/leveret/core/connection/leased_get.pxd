cimport cython

from leveret.core.connection.consumer cimport dressed, is_bare
from leveret.core.queue.contract cimport GIVEN, LATER, Entry, Subscriber
from leveret.core.codec.message cimport Message, shown


@cython.final
cdef class LeasedGet(Subscriber):
    cdef unsigned long long tag
    cdef readonly dict held
    cdef readonly Message message
    cdef readonly bytes body
    cdef readonly bint redelivered

    cdef int show(self, Message message, bint redelivered) except -1
    @cython.locals(answer=int)
    cpdef object fetch(self, unsigned long long tag)
    @cython.locals(entry=Entry)
    cdef Entry take_out(self, unsigned long long tag)
    @cython.locals(entry=Entry)
    cpdef bint settle(self, unsigned long long tag) except -1
    @cython.locals(entry=Entry)
    cpdef bint discard(self, unsigned long long tag) except -1
    @cython.locals(entry=Entry)
    cpdef bint requeue(self, unsigned long long tag) except -1
    @cython.locals(entry=Entry)
    cpdef int collect_located(self, unsigned long long number, dict found) except -1
