cimport cython

from leveret.core.codec.message cimport Message
from leveret.core.codec.octets cimport read_u16, read_u32, read_u64, same_octets, take, write_u64
from leveret.core.codec.properties cimport Properties, scan_properties
from leveret.core.log.record_check cimport message_length
from leveret.core.log.records cimport ADDRESS_MASK, HEAD_BYTES, MESSAGE_HEAD_BYTES
from leveret.core.log.segment cimport Segment
from leveret.core.log.slot cimport SLOT_BYTES

cdef unsigned long long OFFSET_MASK
cdef Py_ssize_t GAP_BYTES_MAX, LOAD_BYTES, LOAD_MESSAGES


@cython.final
cdef class Load:
    cdef Py_ssize_t reads_max
    cdef bytearray slots
    cdef bytearray places
    cdef readonly list messages
    cdef readonly Py_ssize_t count
    cdef bint of_returned
    cdef readonly Py_ssize_t size
    cdef readonly list extents
    cdef unsigned long long segment
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    cdef Py_ssize_t place
    cdef readonly set unread
    cdef readonly dict lost
    cdef readonly Py_ssize_t gone_count

    cdef bint is_full(self)
    @cython.locals(segment="unsigned long long", offset=Py_ssize_t, at=Py_ssize_t, p="unsigned char*")
    cdef int add(self, Message message, unsigned long long location, unsigned int length) except -1
    cdef int seal(self) except -1
    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t slot_room(self) except -1
    cpdef int was_read(self, Py_ssize_t extent) except -1
    cpdef int give_up(self, Py_ssize_t i) except -1
    @cython.locals(at=Py_ssize_t, slots="const unsigned char*")
    cpdef tuple slot(self, Py_ssize_t i)
    @cython.locals(i=Py_ssize_t)
    cpdef list records_of(self, Py_ssize_t extent)
    @cython.locals(p="const unsigned char*", slots="const unsigned char*", places="const unsigned char*", i=Py_ssize_t, location="unsigned long long", length=Py_ssize_t, at=Py_ssize_t, body_at=Py_ssize_t, given_up=Py_ssize_t, segment=Segment, message=Message, last=Message)
    cpdef int finish(self, bytearray data, dict segments) except -1
    @cython.locals(address_size=Py_ssize_t, properties_size=Py_ssize_t, start=Py_ssize_t, known="const unsigned char*")
    cdef int read_head(self, Message message, const unsigned char* p, Py_ssize_t at, Message last) except -1
