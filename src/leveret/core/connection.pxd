cimport cython

from leveret.core.channel cimport OPEN, Channel, wake
from leveret.core.intake cimport IDLE, WANT_BODY, WANT_HEADER, Intake
from leveret.core.octets cimport copy_octets, read_u16, read_u32, take
from leveret.core.outbox cimport Outbox


cdef unsigned int FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT, FRAME_END
cdef Py_ssize_t FRAME_HEAD, FRAME_OVERHEAD, PARTIAL_BYTES_MIN, PARTIAL_BYTES_KEPT
cdef unsigned int PUBLISH, ACK, NACK, REJECT, CHANNEL_OPEN, CHANNEL_CLOSE, CHANNEL_CLOSE_OK


@cython.final
cdef class Connection:
    cdef readonly Outbox outbox
    cdef public unsigned int frame_max
    cdef public unsigned int channel_max
    cdef readonly dict channels
    cdef unsigned int last_number
    cdef Channel last_channel
    # The chunk being worked through
    cdef object chunk
    cdef const unsigned char* p
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    # The start of a frame whose rest has not come yet
    cdef bytearray partial
    cdef Py_ssize_t partial_size
    # Channels that owe their client confirms since the last flush
    cdef list confirming
    cdef public bint muted
    cdef public bint alarmed
    cdef public bint published
    cdef readonly unsigned int current
    cdef readonly unsigned long long bytes_received
    cdef readonly unsigned long long frames_received

    @cython.locals(data=bytearray)
    cpdef object feed(self, bytearray data, Py_ssize_t size)
    @cython.locals(size=Py_ssize_t, at=Py_ssize_t, event=object, p="const unsigned char*")
    cpdef object proceed(self)
    @cython.locals(kind='unsigned int', size="unsigned int")
    cdef Py_ssize_t check_frame(self, const unsigned char* p, Py_ssize_t at) except -1
    @cython.locals(need=Py_ssize_t, count=Py_ssize_t, to="unsigned char*")
    cdef bint complete_partial(self) except -1
    @cython.locals(left=Py_ssize_t, to="unsigned char*")
    cdef int keep_partial(self) except -1
    cdef int let_go(self) except -1
    cpdef object detach(self)
    @cython.locals(kind='unsigned int', number="unsigned int", channel=Channel, intake=Intake)
    cdef object frame(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(channel=Channel, method="unsigned int")
    cdef object method(self, unsigned int number, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    cpdef Channel find(self, unsigned int number)
    @cython.locals(intake=Intake)
    cpdef object flush_confirms(self)
    @cython.locals(channel=Channel, woken=list)
    cpdef object calm(self)
