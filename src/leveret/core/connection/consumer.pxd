cimport cython

from leveret.core.connection.channel cimport Channel
from leveret.core.codec.content cimport write_deliver, write_get_ok
from leveret.core.queue.contract cimport EMPTY, GIVEN, LATER, Entry, Queue, Subscriber
from leveret.core.codec.message cimport Message, shown


cdef bytes DELIVER_ID

cdef bint is_bare(Entry entry)
@cython.locals(message=Message)
cdef Message dressed(Queue queue, Entry entry)


cdef class Consumer(Subscriber):
    cdef readonly Channel channel
    cdef readonly bytes tag
    cdef readonly bint exclusive
    cdef readonly Py_ssize_t prefetch_count
    cdef readonly Py_ssize_t prefetch_bytes
    cdef readonly bytes argument_octets
    cdef public long long ack_timeout_ms
    cdef bytes prefix
    cdef readonly unsigned long long delivered_total

    @cython.locals(channel=Channel)
    cpdef int take(self, Entry entry) except -1


cdef class Getter(Subscriber):
    cdef Channel channel

    @cython.locals(channel=Channel)
    cpdef int take(self, Entry entry) except -1
