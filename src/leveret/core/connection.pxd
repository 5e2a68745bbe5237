cimport cython

from leveret.core.carry cimport Carry
from leveret.core.channel cimport OPEN, Channel, wake
from leveret.core.intake cimport IDLE, WANT_BODY, WANT_HEADER, Intake
from leveret.core.octets cimport read_u16, read_u32, take
from leveret.core.outbox cimport Outbox


cdef unsigned int FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT, FRAME_END
cdef Py_ssize_t FRAME_HEAD, FRAME_OVERHEAD
cdef unsigned int PUBLISH, ACK, NACK, REJECT, CHANNEL_OPEN, CHANNEL_CLOSE, CHANNEL_CLOSE_OK


@cython.final
cdef class Connection(Carry):
    cdef readonly Outbox outbox
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
    cdef readonly unsigned int current
    cdef readonly unsigned long long frames_received

    @cython.locals(data=bytearray)
    cpdef object feed(self, bytearray data, Py_ssize_t size)
    @cython.locals(size=Py_ssize_t, at=Py_ssize_t, event=object, p="const unsigned char*")
    cpdef object proceed(self)
    @cython.locals(kind='unsigned int', size="unsigned int")
    cdef Py_ssize_t check_frame(self, const unsigned char* p, Py_ssize_t at) except -1
    cdef bint complete_partial(self) except -1
    @cython.locals(kind='unsigned int', number="unsigned int", channel=Channel, intake=Intake)
    cdef object frame(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(channel=Channel, method="unsigned int")
    cdef object method(self, unsigned int number, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    cpdef Channel find(self, unsigned int number)
    @cython.locals(intake=Intake)
    cpdef object flush_confirms(self)
    @cython.locals(channel=Channel, woken=list)
    cpdef object calm(self)
