cimport cython

from leveret.core.codec.octets cimport write_u16, write_u32
from leveret.core.codec.write_buffer cimport WriteBuffer

@cython.locals(p="unsigned char*", at=Py_ssize_t, done=Py_ssize_t, count=Py_ssize_t)
cdef int write_large_body(WriteBuffer out, unsigned int channel, bytes body, Py_ssize_t payload_max, bint delivered) except -1
