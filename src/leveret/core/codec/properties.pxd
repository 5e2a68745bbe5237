# C types of properties.py.

cimport cython
from leveret.core.codec.octets cimport read_u16, read_u32, read_u64, take
from leveret.core.codec.tables cimport NOTED_BLIND, NOTED_COPIES, NOTED_DEATH, NOTED_DELAY, NOTED_STREAM, check_table, read_table

# The bit of each property in the flag word, highest first: the order of the values that follow it.
cdef enum:
    CONTENT_TYPE = 0x8000
    CONTENT_ENCODING = 0x4000
    HEADERS = 0x2000
    DELIVERY_MODE = 0x1000
    PRIORITY = 0x0800
    CORRELATION_ID = 0x0400
    REPLY_TO = 0x0200
    EXPIRATION = 0x0100
    MESSAGE_ID = 0x0080
    TIMESTAMP = 0x0040
    TYPE = 0x0020
    USER_ID = 0x0010
    APP_ID = 0x0008
    CLUSTER_ID = 0x0004
    UNUSED = 0x0002
    MORE_FLAGS = 0x0001

@cython.final
cdef class Properties:
    cdef readonly bytes raw
    cdef readonly unsigned int flags
    cdef readonly bint persistent
    cdef readonly int priority
    cdef readonly bytes expiration
    cdef readonly bytes user_id
    cdef readonly bytes reply_to
    cdef readonly bint has_cc
    cdef readonly bint has_bcc
    cdef readonly bint has_delay
    cdef readonly bint has_death
    cdef readonly bint has_stream
    cdef readonly bint special
    cdef readonly long long ttl_ms
    cdef Py_ssize_t headers_at
    cdef Py_ssize_t headers_end
    cdef dict cached_headers

    @cython.locals(p="const unsigned char*")
    cpdef dict headers(self)
    cpdef dict fields(self)
    @cython.locals(at=Py_ssize_t, field_end=Py_ssize_t, bit=cython.uint, flags=cython.uint)
    cpdef Properties replace(self, dict changes)
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, bit=cython.uint)
    cdef Py_ssize_t find(self, unsigned int wanted) noexcept
    @cython.locals(p="const unsigned char*", at=Py_ssize_t)
    cdef object value(self, unsigned int bit)

# Reads the flags and values from `start` to `end`: the content header's payload after class, weight and body size.
# Everything is checked here, nested headers too, so that no later reading of a Properties can fail.
@cython.locals(made=Properties, flags=cython.uint, at=Py_ssize_t, value_end=Py_ssize_t)
cdef Properties scan_properties(const unsigned char* p, Py_ssize_t start, Py_ssize_t end)

cpdef Properties parse_properties(bytes raw)

cdef Py_ssize_t _shortstr_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1

@cython.locals(size=Py_ssize_t, noted=int)
cdef Py_ssize_t _scan_headers(Properties made, const unsigned char* p, Py_ssize_t start, Py_ssize_t at, Py_ssize_t end) except -1

@cython.locals(value="long long")
cdef long long _milliseconds(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept

cdef Py_ssize_t _value_end(const unsigned char* p, Py_ssize_t at, unsigned int bit) noexcept

cdef bytes _encode_value(str name, unsigned int bit, object value)
