cimport cython

from leveret.core.connection.channel cimport Channel
from leveret.core.connection.consumer cimport Consumer
from leveret.core.codec.content cimport write_deliver
from leveret.core.queue.contract cimport make_entry
from leveret.core.codec.message cimport Message, make_message
from leveret.core.codec.octets cimport read_u16, read_u32, read_u64, take
from leveret.core.codec.properties cimport Properties
from leveret.core.log.records cimport MESSAGE_HEAD_BYTES
from leveret.core.stream.content cimport message_at, with_offset, write_entry
from leveret.core.stream.cursor cimport Cursor
from leveret.core.stream.log cimport RAW, SUBBATCH
from leveret.core.stream.queue cimport StreamQueue

cdef unsigned long long NEVER
cdef Properties NO_PROPERTIES


@cython.final
cdef class StreamConsumer(Consumer):
    cdef readonly StreamQueue stream
    cdef readonly Cursor cursor
    cdef readonly bint ended
    cdef public unsigned long long stop_offset
    cdef public object on_stop
    cdef public object on_gone
    cdef object on_drained
    cdef public bytes name
    cdef object held
    cdef set early
    cdef public object values
    cdef public list blooms
    cdef public bint unfiltered
    cdef public bint stamped
    cdef object expansion
    cdef Py_ssize_t expansion_at
    cdef Py_ssize_t steps
    cdef Message blank

    @cython.locals(cursor=Cursor, p="const unsigned char*", at=Py_ssize_t)
    cpdef int transport(self) except -1
    cpdef int go_on(self) except -1
    cpdef int finish(self) except -1
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t)
    cdef bint wants(self, Cursor cursor) except -1
    @cython.locals(channel=Channel)
    cdef int hold_offset(self, unsigned long long offset, unsigned int size) except -1
    @cython.locals(channel=Channel, p="const unsigned char*", at=Py_ssize_t, payload_max=Py_ssize_t)
    cdef int send(self, Cursor cursor) except -1
    @cython.locals(channel=Channel, payload_max=Py_ssize_t)
    cdef int send_message(self, unsigned long long offset, Message message) except -1
    cdef int expand(self) except -1
    @cython.locals(offset="unsigned long long", message=Message)
    cdef int send_expanded(self) except -1
    cpdef int settled(self, unsigned long long offset) except -1
    cdef int remember(self, unsigned long long offset) except -1
