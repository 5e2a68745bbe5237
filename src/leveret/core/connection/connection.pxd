cimport cython

from leveret.core.codec.carry cimport Carry
from leveret.core.connection.channel cimport OPEN, Channel, wake
from leveret.core.connection.publish_path cimport IDLE, ROUTING, WANT_BODY, WANT_HEADER, PublishPath
from leveret.core.log.journal cimport Journal
from leveret.core.observe.meter cimport OCTETS_SHIFT, Meter
from leveret.core.codec.octets cimport read_u16, read_u32, take
from leveret.core.queue.office cimport Office
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.codec.methods cimport ACK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CHANNEL_OPEN, NACK, PUBLISH, REJECT


cdef unsigned int FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT, FRAME_END
cdef Py_ssize_t FRAME_HEAD, FRAME_OVERHEAD


@cython.final
cdef class Connection(Carry):
    cdef readonly WriteBuffer write_buffer
    cdef public unsigned int frame_max
    cdef public unsigned int channel_max
    cdef readonly dict channels
    cdef unsigned int last_number
    cdef Channel last_channel
    # Channels that owe their client confirms since the last flush
    cdef list confirming
    cdef public bint muted
    cdef public bint alarmed
    cdef public bint published
    cdef Meter meter
    cdef Journal journal
    cdef Channel unfinished
    cdef readonly unsigned int current
    cdef readonly unsigned long long frames_received
    cdef Office office
    cdef readonly unsigned long long last_heartbeat_ms

    @cython.locals(data=bytearray)
    cpdef object feed(self, bytearray data, Py_ssize_t size)
    @cython.locals(size=Py_ssize_t, at=Py_ssize_t, event=object, p="const unsigned char*", meter=Meter)
    cpdef object proceed(self)
    cdef bint must_hold(self, unsigned int kind)
    @cython.locals(channel=Channel)
    cdef object go_on(self)
    @cython.locals(publish_path=PublishPath)
    cdef object content_ended(self, Channel channel)
    cdef object settling_ended(self, Channel channel)
    cpdef object await_channel(self, Channel channel)
    @cython.locals(kind='unsigned int', size="unsigned int")
    cdef Py_ssize_t check_frame(self, const unsigned char* p, Py_ssize_t at) except -1
    cdef bint complete_partial(self) except -1
    @cython.locals(kind='unsigned int', number="unsigned int", channel=Channel, publish_path=PublishPath)
    cdef object frame(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(channel=Channel, method="unsigned int")
    cdef object method(self, unsigned int number, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    cpdef Channel find(self, unsigned int number)
    @cython.locals(publish_path=PublishPath)
    cpdef object flush_confirms(self)
    @cython.locals(channel=Channel, woken=list)
    cpdef object calm(self)
