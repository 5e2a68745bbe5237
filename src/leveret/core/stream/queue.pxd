cimport cython

from leveret.core.log.batch cimport Publisher
from leveret.core.queue.contract cimport ACCEPTED, KNOWN, Entry, Queue, Subscriber
from leveret.core.codec.message cimport Message
from leveret.core.queue.office cimport Office
from leveret.core.codec.properties cimport Properties
from leveret.core.stream.log cimport REWRITE, StreamLog

cdef Py_ssize_t NAME_BYTES_MAX


cdef class StreamQueue(Queue):
    cdef readonly StreamLog log
    cdef readonly Office office
    cdef bytes address
    cdef public Py_ssize_t subscriptions
    cdef readonly unsigned long long published_total
    cdef readonly unsigned long long known_total
    cdef public unsigned long long delivered_total
    cdef public unsigned long long streamed_total
    cdef readonly unsigned long long settled_total

    cpdef unsigned long long activity(self) except? 0
    @cython.locals(properties=Properties)
    cpdef int publish(self, Message message) except -1
    cpdef bint keeps(self, Message message) except -1
    cpdef bint prepare(self, Message message, dict coming) except -1
    cdef int take_in(self, Message message, int flags, bytes filter_value) except -1
    cdef int publish_with_headers(self, Message message) except -1
    cpdef unsigned long long append_entry(self, bytes body, unsigned int count, int flags, bytes extra, bytes filter_value) except? 0xFFFFFFFFFFFFFFFF
    cpdef bint take_id(self, bytes producer, unsigned long long publishing_id) except -1
    cpdef int await_sync(self, Publisher publisher) except -1
    cpdef int store_offset(self, bytes consumer, unsigned long long offset) except -1


cpdef bytes octets_of(object value)
cdef bint is_id(object value)
