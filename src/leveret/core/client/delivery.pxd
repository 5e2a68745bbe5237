cimport cython

from leveret.core.client.channel_codec cimport ChannelCodec
from leveret.core.codec.properties cimport Properties
from leveret.core.codec.methods cimport ACK, NACK, REJECT



@cython.final
cdef class Delivery:
    cdef readonly bytes body
    cdef readonly unsigned long long delivery_tag
    cdef readonly bint redelivered
    # Of what basic.get gave: how many are left; else 0.
    cdef readonly unsigned int message_count
    cdef readonly Properties properties
    cdef ChannelCodec _codec
    cdef bytes _address
    cdef bytes _tag
    cdef bint _settled

    cpdef object ack(self, bint multiple=*)
    cpdef object nack(self, bint requeue=*, bint multiple=*)
    cpdef object reject(self, bint requeue=*)
    cpdef object mark_settled(self)
    cdef int settle(self, unsigned int method, unsigned int bits) except -1


cdef object _text(bytes octets)
