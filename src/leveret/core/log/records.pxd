cimport cython

from leveret.core.codec.crc32c cimport crc32c
from leveret.core.codec.message cimport Message
from leveret.core.codec.octets cimport read_u32, read_u64, write_u32, write_u64

cdef enum:
    HEAD_BYTES = 32
    MESSAGE_HEAD_BYTES = 40
    ADDRESS_MASK = 0x0FFF
    EXPIRES = 0x8000
    TARGET_BYTES = 16
    NOTE_BYTES = 32

# Kinds of records
cdef enum:
    MESSAGE = 1
    PAGED = 2
    NOTES = 3
    COMMAND = 4
    CLOSED = 5
    ENTRY = 6
    TRACK = 7
    SHARED = 8
    STATE = 9
    FLOOR = 10

# What a record of a consensus group has before its descriptor or ids, and all of a STATE
cdef enum:
    GROUP_HEAD_BYTES = 48
    STATE_BYTES = 56

# Kinds of notes
cdef enum:
    PLACED = 1
    SETTLED = 2
    HANDED = 3
    COUNTED = 4
    KEY = 5
    MOMENT = 6
    GROUP = 7
    KIND_MASK = 0xFF
    EXPIRES_BIT = 0x10000


cdef Py_ssize_t padded(Py_ssize_t size) noexcept nogil
cdef void write_head(unsigned char* p, Py_ssize_t at, unsigned int length, unsigned long long sequence, int kind) noexcept nogil
cdef unsigned int placed_kind(unsigned int priority, bint expires) noexcept nogil
cdef void write_note(unsigned char* p, Py_ssize_t at, unsigned long long queue, unsigned long long first, unsigned int a, unsigned int b, unsigned int c, unsigned int kind) noexcept nogil

@cython.locals(at=Py_ssize_t, length=Py_ssize_t)
cdef void seal_records(unsigned char* p, Py_ssize_t start, Py_ssize_t end, unsigned int salt) noexcept nogil

@cython.locals(length=Py_ssize_t)
cdef Py_ssize_t sealed_length(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, unsigned int salt) noexcept nogil

@cython.locals(p="unsigned char*")
cpdef bytearray sealed(bytearray data, unsigned int salt)
@cython.locals(p="const unsigned char*")
cpdef unsigned int checksum(bytes data)
@cython.locals(p="unsigned char*", length=Py_ssize_t, data=bytearray)
cpdef bytearray command_record(unsigned long long sequence, unsigned long long synced_sequence, bytes payload)

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t record_bytes(Message message, Py_ssize_t room) except -1
