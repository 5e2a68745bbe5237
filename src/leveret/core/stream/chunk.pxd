cimport cython

from leveret.core.codec.amqp10 cimport data_head, to_amqp10
from leveret.core.codec.octets cimport (
    copy_octets, read_u16, read_u32, read_u64, same_octets, take, write_u16, write_u32, write_u64
)
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.log.records cimport MESSAGE_HEAD_BYTES
from leveret.core.stream.cursor cimport Cursor
from leveret.core.stream.log cimport RAW, SUBBATCH
from leveret.core.stream.queue cimport StreamQueue
from leveret.core.stream.segment cimport make_bloom

cdef unsigned int DELIVER, MAGIC_AND_VERSION, EPOCH
cdef Py_ssize_t ENTRIES_MAX, GAP_BYTES_MAX, FRAME_HEAD, CHUNK_HEAD, CREDIT_MAX


@cython.final
cdef class StreamSubscription:
    cdef readonly unsigned int id
    cdef readonly StreamQueue stream
    cdef readonly WriteBuffer write_buffer
    cdef public unsigned int version
    cdef readonly Py_ssize_t bytes_max
    cdef readonly Cursor cursor
    cdef readonly Py_ssize_t credit
    cdef frozenset values
    cdef list blooms
    cdef readonly bint unfiltered
    cdef bytes address
    cdef bytes properties
    cdef bytes sections
    cdef bint encoded
    cdef bint known
    cdef bytes whole
    # Whether the entry that `wants` last looked at has one of the filter values.
    cdef bint matched
    cdef readonly unsigned long long chunks_total
    cdef readonly unsigned long long messages_total

    cpdef object begin(self, unsigned long long offset)
    cpdef object pause(self)
    cpdef object add_credit(self, Py_ssize_t credit)
    cpdef object cursor_ready(self)
    cpdef int transport(self) except -1
    @cython.locals(cursor=Cursor, out=WriteBuffer, size=Py_ssize_t, room=Py_ssize_t, head=Py_ssize_t, q="unsigned char*", start=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, first="unsigned long long", following="unsigned long long", stamp="unsigned long long", entries=Py_ssize_t, records=Py_ssize_t, taken=Py_ssize_t)
    cdef int write_chunk(self) except -1
    @cython.locals(extra=Py_ssize_t)
    cdef int write_head(self, unsigned char* q, Py_ssize_t at, Py_ssize_t size, Py_ssize_t entries, Py_ssize_t records, unsigned long long stamp, unsigned long long first) except -1
    @cython.locals(cursor=Cursor, p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t)
    cdef bint wants(self) except -1
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, body_size=Py_ssize_t, address_size=Py_ssize_t, properties_size=Py_ssize_t)
    cdef Py_ssize_t entry_size(self) except -1
    cdef tuple names(self)
    cdef int make_sections(self) except -1
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, flags="unsigned int", size=Py_ssize_t, extra_at=Py_ssize_t, body_at=Py_ssize_t, source="const unsigned char*", head=bytes)
    cdef int copy_entry(self, unsigned char* q, Py_ssize_t to) except -1
