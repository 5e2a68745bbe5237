cimport cython

from leveret.core.octets cimport write_u16, write_u32
from leveret.core.outbox cimport Outbox

@cython.locals(p="unsigned char*", at=Py_ssize_t, done=Py_ssize_t, count=Py_ssize_t)
cdef int write_large_body(Outbox out, unsigned int channel, bytes body, Py_ssize_t payload_max, bint delivered) except -1
