cimport cython

from leveret.core.codec.body_frames cimport write_large_body
from leveret.core.codec.message cimport Message
from leveret.core.codec.octets cimport copy_octets, write_u16, write_u32, write_u64
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.codec.methods cimport ACK, BASIC, DELIVER, GET_OK, NACK, RETURN


cdef enum:
    BODY_COPIED_MAX = 16384

@cython.locals(p="unsigned char*", at=Py_ssize_t, size=Py_ssize_t, raw=bytes, body=bytes, properties_size=Py_ssize_t, source="const unsigned char*")
cdef int write_content(WriteBuffer out, unsigned int channel, Message message, Py_ssize_t payload_max) except -1

@cython.locals(p="unsigned char*", at=Py_ssize_t, source="const unsigned char*", address=bytes, raw=bytes, body=bytes, prefix_size=Py_ssize_t, address_size=Py_ssize_t, properties_size=Py_ssize_t, size=Py_ssize_t)
cdef int write_deliver(WriteBuffer out, unsigned int channel, bytes prefix, unsigned long long tag, bint redelivered, Message message, Py_ssize_t payload_max) except -1

@cython.locals(p="unsigned char*", at=Py_ssize_t, source="const unsigned char*", address=bytes)
cdef int write_get_ok(WriteBuffer out, unsigned int channel, unsigned long long tag, bint redelivered, Message message, unsigned int left, Py_ssize_t payload_max) except -1

@cython.locals(p="unsigned char*", at=Py_ssize_t, source="const unsigned char*", address=bytes)
cdef int write_return(WriteBuffer out, unsigned int channel, unsigned int code, bytes text, Message message, Py_ssize_t payload_max) except -1

@cython.locals(p="unsigned char*", at=Py_ssize_t)
cdef int write_confirm(WriteBuffer out, unsigned int channel, unsigned int method, unsigned long long tag, unsigned int bits) except -1
