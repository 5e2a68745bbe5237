cimport cython

from leveret.core.codec.carry cimport Carry
from leveret.core.client.delivery cimport Delivery
from leveret.core.client.outgoing cimport CONFIRMED, REFUSED
from leveret.core.client.channel_codec cimport ChannelCodec, DeliveryBuffer
from leveret.core.codec.octets cimport read_u16, read_u32, read_u64, take
from leveret.core.codec.methods cimport ACK, DELIVER, GET_OK, NACK, RETURN

cdef unsigned int FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT, FRAME_END
cdef Py_ssize_t FRAME_HEAD, FRAME_OVERHEAD


@cython.final
cdef class Reader(Carry):
    cdef public unsigned int frame_max
    cdef readonly dict codecs
    cdef unsigned int last_number
    cdef ChannelCodec last_lane
    cdef list woken
    cdef list answered
    cdef readonly unsigned long long frames_received

    @cython.locals(p="const unsigned char*", at=Py_ssize_t, events=list)
    cpdef list feed(self, bytearray data, Py_ssize_t size)
    @cython.locals(size="unsigned int")
    cdef Py_ssize_t check_frame(self, const unsigned char* p, Py_ssize_t at) except -1
    cdef bint complete_partial(self) except -1
    @cython.locals(kind="unsigned int", number="unsigned int", codec=ChannelCodec, body=bytes)
    cdef int frame(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, list events) except -1
    @cython.locals(codec=ChannelCodec)
    cdef int on_method(self, unsigned int number, unsigned int method, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, list events) except -1
    cdef int note(self, ChannelCodec codec) except -1
    @cython.locals(method="unsigned int", delivery=Delivery, delivery_buffer=DeliveryBuffer)
    cdef int complete(self, ChannelCodec codec, bytes body, list events) except -1
    cdef ChannelCodec find(self, unsigned int number)
    cpdef object add_lane(self, ChannelCodec codec)
    cpdef object drop_lane(self, unsigned int number)
    @cython.locals(delivery_buffer=DeliveryBuffer)
    cpdef list take_woken(self)
    cpdef list take_answered(self)


@cython.locals(made=Delivery)
cdef Delivery make_delivery(ChannelCodec codec, bytes body)
