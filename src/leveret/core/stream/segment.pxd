cimport cython

from leveret.core.codec.crc32c cimport crc32c
from leveret.core.codec.octets cimport clear_octets, read_u16, read_u32, read_u64, take, write_u64
from leveret.core.log.records cimport MESSAGE_HEAD_BYTES

cdef enum:
    BLOCK_BYTES = 40
    OFFSET_AT = 0
    STAMP_AT = 8
    PLACE_AT = 16
    BLOOM_AT = 24

cdef unsigned long long PLACE_MASK
cdef Py_ssize_t BLOCK_SPAN, FIRST_INDEX_BYTES


@cython.final
cdef class StreamSegment:
    cdef readonly unsigned long long number
    cdef readonly unsigned int salt
    cdef readonly object path
    cdef public unsigned long long first_offset
    cdef public unsigned long long next_offset
    cdef public unsigned long long first_stamp
    cdef public unsigned long long last_stamp
    cdef public unsigned long long end
    cdef public unsigned long long synced
    cdef public unsigned long long allocated
    cdef readonly bytearray index
    cdef readonly Py_ssize_t index_bytes
    cdef public bint gone
    cdef public bint damaged

    @cython.locals(at=Py_ssize_t, p="unsigned char*")
    cpdef int note(self, unsigned long long offset, unsigned long long stamp, bytes filter_value) except -1
    cpdef object copy_index(self)
    cpdef object drop_index(self)
    cpdef object use_index(self, bytes blocks)


@cython.locals(p="const unsigned char*", head=Py_ssize_t)
cdef bytes filter_value_at(bytes data, Py_ssize_t at, Py_ssize_t length)
@cython.locals(source="const unsigned char*", sum="unsigned int", bit="unsigned int")
cdef int add_to_bloom(unsigned char* p, Py_ssize_t at, bytes value) except -1
@cython.locals(bloom=bytearray, p="unsigned char*")
cpdef bytes make_bloom(bytes value)
@cython.locals(p="const unsigned char*", b="const unsigned char*", bloom=bytes, found=bint, i=int)
cpdef bint may_match(bytes index, Py_ssize_t at, list blooms, bint unfiltered) except -1
@cython.locals(p="const unsigned char*")
cpdef unsigned long long place_of(bytes index, Py_ssize_t at) except? 0xFFFFFFFFFFFFFFFF
cpdef Py_ssize_t find_offset(bytes index, Py_ssize_t size, unsigned long long offset) except -1
cpdef Py_ssize_t find_stamp(bytes index, Py_ssize_t size, unsigned long long stamp) except -1
@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
cpdef Py_ssize_t find_place(bytes index, Py_ssize_t size, unsigned long long place) except -1
@cython.locals(p="const unsigned char*", low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, value="unsigned long long")
cdef Py_ssize_t find_last(bytes index, Py_ssize_t size, int field, unsigned long long wanted, bint below) except -1
