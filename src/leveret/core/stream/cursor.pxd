cimport cython

from leveret.core.codec.octets cimport read_u32, read_u64
from leveret.core.log.records cimport ENTRY, padded
from leveret.core.stream.log cimport StreamLog
from leveret.core.stream.segment cimport StreamSegment, find_place, may_match, place_of

cdef Py_ssize_t READ_BYTES_MIN, READ_BYTES_MAX


@cython.final
cdef class Cursor:
    cdef readonly StreamLog log
    cdef object owner
    cdef readonly unsigned long long offset
    cdef readonly bytearray data
    cdef const unsigned char* p
    cdef readonly Py_ssize_t at
    cdef Py_ssize_t end
    cdef readonly Py_ssize_t length
    cdef readonly StreamSegment segment
    cdef readonly unsigned long long place
    cdef readonly Py_ssize_t read_bytes
    cdef tuple ahead
    cdef readonly bint waiting
    cdef readonly bint loading
    cdef readonly bint moved
    cdef Py_ssize_t filtered_bytes
    cdef public list blooms
    cdef public bint unfiltered
    cdef bytes index
    cdef StreamSegment indexed
    cdef readonly bint closed
    cdef readonly unsigned long long missed_total
    cdef readonly unsigned long long blocks_skipped_total

    cpdef object seek(self, unsigned long long offset)
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, length=Py_ssize_t)
    cpdef bint ready(self) except -1
    @cython.locals(p="const unsigned char*")
    cpdef int step(self) except -1
    @cython.locals(log=StreamLog, part=tuple)
    cdef bint refill(self) except -1
    cdef int use(self, tuple stretch) except -1
    cdef int want_read(self) except -1
    cpdef object come(self)
    cpdef object take_part(self, bytearray data, Py_ssize_t start, Py_ssize_t end, StreamSegment segment, unsigned long long place)
    @cython.locals(log=StreamLog, segment=StreamSegment, following=StreamSegment)
    cpdef object next_read(self)
    cdef StreamSegment following(self, StreamSegment segment)
    cpdef bint lacks_index(self)
    cpdef object use_index(self, StreamSegment segment, bytes index)
    @cython.locals(index=bytes, size=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, stop="unsigned long long")
    cdef bint pass_blocks(self, StreamSegment segment) except -1
    cpdef object loaded(self, bytearray data, Py_ssize_t start, Py_ssize_t end)
    cpdef object found(self, StreamSegment segment, unsigned long long place)
    cpdef object nothing_to_read(self)
    cpdef object need(self, Py_ssize_t octets)
    cpdef object pass_over(self, unsigned long long offset, unsigned long long place)
