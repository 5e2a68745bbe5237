cimport cython

from leveret.core.octets cimport read_u32, read_u64
from leveret.core.records cimport ENTRY, HEAD_BYTES, TRACK, padded, record_length
from leveret.core.stream.segment cimport StreamSegment, filter_value_at
from leveret.core.stream.tracking cimport Tracking


@cython.final
cdef class StreamScan:
    cdef readonly StreamSegment segment
    cdef readonly Tracking tracking
    cdef bint known
    cdef bint from_start
    cdef readonly unsigned long long next_offset
    cdef readonly unsigned long long synced_offset
    cdef readonly unsigned long long part_end
    cdef readonly unsigned long long part_offset
    cdef readonly Py_ssize_t records
    cdef readonly Py_ssize_t messages

    @cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, segment=StreamSegment, length=Py_ssize_t, sequence="unsigned long long")
    cpdef Py_ssize_t run(self, bytes data) except -1
    @cython.locals(p="const unsigned char*", count="unsigned int")
    cdef int take_entry(self, bytes data, Py_ssize_t at, Py_ssize_t length, unsigned long long sequence) except -1
    @cython.locals(p="const unsigned char*")
    cdef int take_track(self, bytes data, Py_ssize_t at, Py_ssize_t length, unsigned long long sequence) except -1


@cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t)
cpdef object first_since(bytes data, unsigned long long stamp)
