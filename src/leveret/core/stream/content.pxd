cimport cython

from leveret.core.codec.content cimport write_deliver
from leveret.core.codec.message cimport Message, make_message
from leveret.core.codec.octets cimport copy_octets, read_u16, read_u32, read_u64, take, write_u16, write_u32, write_u64
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.codec.properties cimport Properties, parse_properties
from leveret.core.log.records cimport MESSAGE_HEAD_BYTES
from leveret.core.stream.log cimport REWRITE
from leveret.core.codec.methods cimport BASIC

cdef enum:
    HEADERS_BIT = 0x2000
    CONTENT_TYPE_BIT = 0x8000
    CONTENT_ENCODING_BIT = 0x4000

cdef bytes OFFSET_FIELD
cdef Py_ssize_t OFFSET_FIELD_BYTES
cdef bytes STAMP_FIELD
cdef Py_ssize_t STAMP_FIELD_BYTES

@cython.locals(p="const unsigned char*", q="unsigned char*", source="const unsigned char*", prefix_size=Py_ssize_t, address_size=Py_ssize_t, properties_size=Py_ssize_t, size=Py_ssize_t, to=Py_ssize_t, from_=Py_ssize_t, length_at=Py_ssize_t)
cdef int write_entry(WriteBuffer out, unsigned int channel, bytes prefix, unsigned long long tag, bytearray data, Py_ssize_t at, Py_ssize_t payload_max, bint stamped) except -1
@cython.locals(flags="unsigned int", headers_at=Py_ssize_t, table_size=Py_ssize_t, rest=Py_ssize_t, field="const unsigned char*")
cdef Py_ssize_t write_properties(unsigned char* q, Py_ssize_t to, const unsigned char* p, Py_ssize_t at, Py_ssize_t size, unsigned long long offset, bint stamped, unsigned long long stamp) noexcept
@cython.locals(message=Message, p="const unsigned char*")
cdef int write_slowly(WriteBuffer out, unsigned int channel, bytes prefix, unsigned long long tag, bytearray data, Py_ssize_t at, Py_ssize_t payload_max, bint stamped) except -1
@cython.locals(p="const unsigned char*", properties_at=Py_ssize_t, body_at=Py_ssize_t, message=Message)
cpdef Message message_at(bytearray data, Py_ssize_t at)
cpdef Message with_offset(Message message, unsigned long long offset, bint stamped)
