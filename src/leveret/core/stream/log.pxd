cimport cython

from leveret.core.log.batch cimport SideLog
from leveret.core.codec.buffers cimport grow
from leveret.core.log.journal cimport Journal
from leveret.core.codec.octets cimport clear_octets, copy_octets, write_u16, write_u32, write_u64
from leveret.core.log.records cimport ENTRY, HEAD_BYTES, MESSAGE_HEAD_BYTES, TRACK, padded, write_head
from leveret.core.stream.segment cimport StreamSegment
from leveret.core.stream.tracking cimport ALONE, BATCH_ITEM_BYTES, LOGGED, MORE, Tracking, write_batch

# Flags of an entry
cdef enum:
    RAW = 1
    SUBBATCH = 2
    REWRITE = 4

cdef Py_ssize_t SHARED_BYTES_MAX, COPIED_BYTES_MAX, CHECKPOINT_BYTES


cdef class StreamLog(SideLog):
    cdef readonly unsigned long long id
    cdef readonly Journal journal
    cdef readonly object stream_store
    cdef public unsigned long long segment_bytes
    cdef readonly list segments
    cdef readonly StreamSegment segment
    cdef readonly Tracking tracking
    cdef readonly unsigned long long next_offset
    cdef readonly unsigned long long committed_offset
    cdef readonly unsigned long long last_stamp
    cdef bytearray data
    cdef unsigned char* p
    cdef Py_ssize_t end
    cdef Py_ssize_t usual_bytes
    cdef readonly list pieces
    cdef Py_ssize_t piece_start
    cdef readonly unsigned long long piece_place
    cdef Py_ssize_t count
    cdef bint touched
    cdef public Py_ssize_t cursors
    cdef readonly list waiting
    cdef tuple last_part
    cdef readonly unsigned long long checkpoint
    cdef public long long max_bytes
    cdef public unsigned long long max_age_ms
    cdef readonly bint closed
    cdef readonly unsigned long long appended_total
    cdef readonly unsigned long long appended_bytes_total

    cpdef object first_offset(self)
    cpdef int touch(self) except -1
    cdef int open_part(self) except -1
    cdef int start_segment(self) except -1
    cdef int roll(self) except -1
    cdef int reserve(self, Py_ssize_t count) except -1
    @cython.locals(address_size=Py_ssize_t, properties_size=Py_ssize_t, body_size=Py_ssize_t, filter_size=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t, to=Py_ssize_t, p="unsigned char*", source="const unsigned char*", offset="unsigned long long")
    cpdef unsigned long long append(self, bytes address, bytes properties, bytes body, unsigned int count, int flags, bytes filter_value, unsigned long long now) except? 0xFFFFFFFFFFFFFFFF
    @cython.locals(size=Py_ssize_t)
    cdef int advance(self, Py_ssize_t length) except -1
    @cython.locals(tracking=Tracking, length=Py_ssize_t, items=Py_ssize_t, at=Py_ssize_t, to=Py_ssize_t, p="unsigned char*")
    cdef int write_track(self, bint whole, int batch) except -1
    cpdef bint take_id(self, bytes producer, unsigned long long publishing_id) except -1
    cpdef int store_offset(self, bytes consumer, unsigned long long offset) except -1
    cpdef list unwritten_segments(self)
    cpdef bint is_settled(self) except -1
    @cython.locals(tied=bint)
    cpdef object take_part(self)
    cpdef object part_written(self, object part)
    cpdef object part_synced(self, object part)
    @cython.locals(data=bytearray, p="unsigned char*", q="unsigned char*", size=Py_ssize_t, source=bytearray)
    cpdef object share(self, object part)
    cpdef object stop_waiting(self, object cursor)
