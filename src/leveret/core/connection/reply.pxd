cimport cython

from leveret.core.queue.contract cimport ACCEPTED, Queue, Subscriber
from leveret.core.connection.consumer cimport Consumer
from leveret.core.codec.message cimport Message

cdef Py_ssize_t REPLY_BYTES_MAX


cdef class ReplyQueue(Queue):
    cdef Consumer consumer
    cdef readonly unsigned long long delivered_total
    cdef readonly unsigned long long dropped_total
