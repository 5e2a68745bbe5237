cimport cython

from leveret.core.codec.octets cimport read_u32, read_u64
from leveret.core.log.record_check cimport fits
from leveret.core.log.records cimport ENTRY, HEAD_BYTES, MESSAGE_HEAD_BYTES, TRACK, padded, sealed_length
from leveret.core.log.record_search cimport RecordSearch
from leveret.core.stream.segment cimport StreamSegment, filter_value_at
from leveret.core.stream.tracking cimport ALONE, BATCH, BATCH_ITEM_BYTES, ITEM_BYTES, Tracking


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
    cdef unsigned long long log_next
    cdef readonly unsigned long long finished_end
    cdef readonly unsigned long long finished_offset
    cdef readonly bint unfinished
    cdef readonly Py_ssize_t misshapen_bytes
    cdef unsigned long long offset_behind
    cdef readonly Py_ssize_t records
    cdef readonly Py_ssize_t messages

    @cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, segment=StreamSegment, length=Py_ssize_t, sequence="unsigned long long")
    cpdef Py_ssize_t run(self, bytes data, Py_ssize_t start=*, RecordSearch search=*) except -1
    @cython.locals(count="unsigned int")
    cdef int stop_at(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t length) except -1
    @cython.locals(p="const unsigned char*", count="unsigned int")
    cdef int take_entry(self, bytes data, Py_ssize_t at, Py_ssize_t length, unsigned long long sequence) except -1
    @cython.locals(p="const unsigned char*", first="unsigned long long", synced="unsigned long long")
    cdef int take_track(self, bytes data, Py_ssize_t at, Py_ssize_t length, unsigned long long sequence) except -1


@cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t)
cpdef object first_since(bytes data, unsigned long long stamp)
