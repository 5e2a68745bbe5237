cimport cython

from leveret.core.log.batch cimport Publisher
from leveret.core.codec.content cimport write_confirm
from leveret.core.log.journal cimport Journal
from leveret.core.codec.message cimport Message
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.codec.methods cimport ACK, NACK



cdef class Confirms(Publisher):
    cdef unsigned int channel
    cdef WriteBuffer write_buffer
    cdef Journal journal
    cdef readonly bint confirming
    cdef bint owing
    cdef readonly unsigned long long publish_seq
    cdef readonly unsigned long long confirmed_seq
    cdef readonly unsigned long long confirmed_total
    # Refused ones that came after others which are not confirmed yet, by number
    cdef list nacked

    cpdef object start_confirming(self)
    cdef int confirm(self, Message message, bint refused, bint known) except -1
    @cython.locals(count="unsigned long long")
    cdef int acknowledge(self, unsigned long long upto_seq) except -1
    cpdef object flush_confirms(self)
