cimport cython

from leveret.core.codec.body_frames cimport write_large_body
from leveret.core.client.outgoing cimport PENDING, REFUSED, RETURNED, Outgoing
from leveret.core.codec.octets cimport copy_octets, read_u16, read_u32, read_u64, take, write_u16, write_u32, write_u64
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.codec.properties cimport Properties, scan_properties
from leveret.core.codec.methods cimport BASIC, DELIVER, GET_OK, PUBLISH, RETURN

cdef Py_ssize_t BEYOND_MAX
cdef unsigned long long SPAN_MAX
cdef unsigned int FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_END

cdef enum:
    IDLE = 0
    WANT_HEADER = 1
    WANT_BODY = 2
    BODY_COPIED_MAX = 16384

cdef enum:
    # Above this a size is no size: nobody has that much memory.
    BODY_BYTES_MAX = 0x10000000000


@cython.final
cdef class DeliveryBuffer:
    cdef readonly bytes tag
    cdef readonly object items
    cdef public bint noted
    cdef public object wake
    cdef public unsigned long long received_total
    cdef public unsigned long long redelivered_total
    cdef public bint no_ack
    cdef public bint counts_bytes
    cdef public unsigned long long waiting_bytes

    cpdef object take(self)


@cython.final
cdef class ChannelCodec:
    cdef readonly unsigned int number
    cdef readonly WriteBuffer write_buffer
    cdef readonly Py_ssize_t payload_max
    cdef public bint is_open
    cdef readonly bint is_abandoned
    cdef public bint confirming
    cdef readonly unsigned long long next_tag
    cdef readonly unsigned long long lowest
    cdef unsigned long long returned
    cdef readonly dict unconfirmed
    cdef readonly Py_ssize_t unconfirmed_bytes
    cdef list settled
    cdef public object owner
    cdef public object kick
    cdef public bint noted
    cdef list strays
    cdef readonly unsigned long long published_total
    cdef readonly dict delivery_buffers
    cdef public unsigned long long delivered_upto
    cdef readonly unsigned long long settled_upto
    cdef set settled_beyond
    cdef Py_ssize_t beyond_max
    cdef set holes
    cdef readonly unsigned long long acked_total
    cdef readonly unsigned long long nacked_total
    cdef readonly int stage
    cdef readonly unsigned int method
    cdef DeliveryBuffer delivery_buffer
    cdef unsigned long long tag
    cdef bint redelivered
    cdef unsigned int count
    cdef unsigned int code
    cdef bytes text
    cdef bytes address
    cdef Properties properties
    cdef unsigned long long body_size
    cdef bytearray parts

    @cython.locals(address=bytes, address_size=Py_ssize_t, raw=bytes, raw_size=Py_ssize_t, body=bytes, size=Py_ssize_t, copied=Py_ssize_t, out=WriteBuffer, p="unsigned char*", at=Py_ssize_t, source="const unsigned char*")
    cpdef object publish(self, Outgoing message)
    @cython.locals(out=WriteBuffer, p="unsigned char*", at=Py_ssize_t)
    cdef int write_settlement(self, unsigned int method, unsigned long long tag, unsigned int bits) except -1
    @cython.locals(count="unsigned long long")
    cdef int note_settled(self, unsigned long long tag, bint multiple, bint is_ack) except -1
    cdef int close_tag(self, unsigned long long tag) except -1
    @cython.locals(upto="unsigned long long", tag="unsigned long long")
    cdef int leave_holes(self) except -1
    cdef bint is_settled(self, unsigned long long tag) except -1
    @cython.locals(count="unsigned long long", other="unsigned long long")
    cpdef unsigned long long unsettled_upto(self, unsigned long long tag) except? 0
    cpdef object forget(self, Outgoing message)
    cpdef list abandon(self)
    @cython.locals(tag="unsigned long long")
    cpdef object confirm(self, unsigned long long upto, bint multiple, int outcome)
    cdef int settle(self, Outgoing message, int outcome) except -1
    cpdef list take_settled(self)
    cpdef list take_strays(self)
    @cython.locals(address_end=Py_ssize_t)
    cdef int begin(self, unsigned int method, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cdef Py_ssize_t begin_deliver(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint header(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(size=Py_ssize_t, wanted=Py_ssize_t)
    cdef bytes body(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(octets=bytes, first="unsigned long long")
    cdef int give_back(self, object delivery) except -1
    @cython.locals(tag="unsigned long long", message=Outgoing)
    cdef bint find_returned(self, bytes message_id, unsigned long long first, unsigned long long end) except -1


@cython.locals(first=Py_ssize_t)
cdef Py_ssize_t check_address(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1

cdef object cut_off(const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
