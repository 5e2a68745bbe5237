cimport cython

from leveret.core.client.delivery cimport Delivery
from leveret.core.client.channel_codec cimport ChannelCodec, DeliveryBuffer
from leveret.core.client.outgoing cimport CONFIRMED, Outgoing, make_outgoing
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.codec.methods cimport ACK

cdef Py_ssize_t UNCONFIRMED_BYTES_MAX

cdef enum:
    ON_CONFIRM = 0
    ON_PUBLISH = 1
    NO_ACK = 2


@cython.final
cdef class Relay:
    cdef readonly DeliveryBuffer delivery_buffer
    cdef readonly ChannelCodec source
    cdef readonly ChannelCodec target
    cdef readonly int mode
    cdef bytes exchange
    cdef bytes routing_key
    cdef unsigned int bits
    cdef object edit
    cdef bytes last_address
    cdef bytes made_address
    cdef public long long left
    cdef readonly unsigned long long taken_tag
    cdef readonly Delivery last
    cdef readonly Py_ssize_t in_flight
    cdef list early
    cdef readonly list refused
    cdef readonly bint single
    cdef readonly tuple returned
    cdef readonly unsigned long long forwarded_total
    cdef readonly unsigned long long forwarded_bytes
    cdef readonly unsigned long long confirmed_total
    cdef readonly unsigned long long dropped_total
    cdef readonly unsigned long long refused_total

    @cython.locals(count=Py_ssize_t, size=Py_ssize_t, out=WriteBuffer, delivery=Delivery, raw=bytes, message=Outgoing)
    cpdef Py_ssize_t transport(self, Py_ssize_t count_max) except -1
    cdef int drop(self, Delivery delivery) except -1
    @cython.locals(end=Py_ssize_t, exchange=bytes)
    cdef bytes address_of(self, bytes address)
    cdef int ack(self, unsigned long long tag, bint multiple) except -1
    @cython.locals(settled=list, strays=list, message=Outgoing, lowest="unsigned long long", upto="unsigned long long")
    cpdef bint answered(self) except -1
    @cython.locals(message=Outgoing)
    cdef int set_aside(self, list settled) except -1
    @cython.locals(message=Outgoing, waiting=list)
    cdef unsigned long long take_early(self, unsigned long long lowest, unsigned long long upto) except? 0
    cpdef object retry(self)


cpdef unsigned long long _index_of(Outgoing message)
