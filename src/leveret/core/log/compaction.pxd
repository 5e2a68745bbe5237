cimport cython

from leveret.core.log.journal cimport Journal
from leveret.core.codec.message cimport Message
from leveret.core.codec.octets cimport clear_octets, copy_octets, read_u16, read_u32, read_u64, write_u32, write_u64
from leveret.core.log.records cimport (
    ADDRESS_MASK, COUNTED, EXPIRES, KIND_MASK, MESSAGE_HEAD_BYTES, NOTE_BYTES, PLACED, SETTLED, TARGET_BYTES, padded,
    placed_kind, write_note,
)
from leveret.core.log.record_check cimport message_length
from leveret.core.log.segment cimport Segment

@cython.locals(source="const unsigned char*", head=Py_ssize_t, copied=Py_ssize_t, to=Py_ssize_t, p="unsigned char*", segment=Segment, offset="unsigned int", body_size="unsigned int", target_at=Py_ssize_t, index="unsigned char*", kind="unsigned int", queue="unsigned long long", position="unsigned long long")
cpdef unsigned long long append_copy(Journal journal, bytes data, Py_ssize_t at, list targets) except 0


@cython.final
cdef class Compaction:
    cdef Journal journal
    cdef Segment segment
    cdef dict queues
    cdef dict in_memory
    cdef readonly Py_ssize_t copied
    cdef readonly list damaged

    @cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, kind="unsigned int", offset="unsigned int", length="unsigned int", first=Py_ssize_t)
    cpdef int run(self, bytearray notes, bytes data) except -1
    @cython.locals(about="unsigned long long")
    cdef int carry_on(self, const unsigned char* p, Py_ssize_t at, unsigned int kind) except -1
    @cython.locals(location="unsigned long long", targets=list, at=Py_ssize_t, key=tuple, octets="const unsigned char*", to="unsigned long long")
    cdef int move(self, const unsigned char* p, Py_ssize_t first, Py_ssize_t end, unsigned int offset, unsigned int length, bytes data) except -1
    cdef bint is_stored(self, tuple key, unsigned long long location) except -1
    @cython.locals(message=Message, times="unsigned int", held=tuple)
    cdef int follow(self, tuple key, unsigned long long location, unsigned long long to) except -1
