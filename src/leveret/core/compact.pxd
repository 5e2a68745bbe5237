cimport cython

from leveret.core.contract cimport Queue
from leveret.core.journal cimport Journal
from leveret.core.message cimport Message
from leveret.core.octets cimport read_u32, read_u64
from leveret.core.records cimport COUNTED, KIND_MASK, NOTE_BYTES, PLACED, SETTLED, record_length
from leveret.core.segment cimport Segment


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
    @cython.locals(queue=Queue)
    cdef bint is_stored(self, tuple key, unsigned long long location) except -1
    @cython.locals(message=Message, queue=Queue, times="unsigned int", held=tuple)
    cdef int follow(self, tuple key, unsigned long long location, unsigned long long to) except -1
