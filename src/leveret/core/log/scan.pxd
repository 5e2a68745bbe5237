cimport cython

from leveret.core.codec.octets cimport copy_octets, read_u16, read_u32, read_u64, take
from leveret.core.log.records cimport (
    ADDRESS_MASK, CLOSED, COMMAND, EXPIRES, FLOOR, GROUP, HEAD_BYTES, MESSAGE, MESSAGE_HEAD_BYTES, NOTE_BYTES, NOTES, SHARED,
    STATE, TARGET_BYTES, padded, placed_kind, sealed_length, write_note,
)
from leveret.core.log.record_check cimport fits
from leveret.core.log.record_search cimport RecordSearch


@cython.final
cdef class Scan:
    cdef unsigned int salt
    cdef readonly bytearray notes
    cdef readonly Py_ssize_t end
    cdef readonly unsigned long long first_sequence
    cdef readonly unsigned long long last_sequence
    cdef readonly unsigned long long synced_sequence
    cdef readonly list gaps
    cdef readonly set misshapen
    cdef readonly Py_ssize_t records
    cdef readonly bint closed
    cdef readonly Py_ssize_t batch_end
    cdef readonly unsigned long long batch_sequence
    cdef readonly list commands
    cdef readonly Py_ssize_t first_notes_end
    cdef readonly RecordSearch search

    @cython.locals(p="const unsigned char*", end=Py_ssize_t, at=Py_ssize_t, length=Py_ssize_t, found=Py_ssize_t, missing="unsigned long long")
    cpdef int run(self, bytes data, Py_ssize_t start) except -1
    cdef int pass_over(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t length) except -1
    cpdef bint is_torn(self, Py_ssize_t start, unsigned long long missing, unsigned long long synced)
    @cython.locals(sequence="unsigned long long", kind=int, size=Py_ssize_t, to=Py_ssize_t, q="unsigned char*")
    cdef int take(self, const unsigned char* p, Py_ssize_t at) except -1
    @cython.locals(kind=int, to=Py_ssize_t, q="unsigned char*", index="unsigned long long", what="unsigned int")
    cdef int take_shared(self, const unsigned char* p, Py_ssize_t at) except -1
    @cython.locals(body_size="unsigned int", length="unsigned int", target=Py_ssize_t, to=Py_ssize_t, q="unsigned char*", kind="unsigned int")
    cdef int take_message(self, const unsigned char* p, Py_ssize_t at) except -1
