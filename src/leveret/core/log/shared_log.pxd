cimport cython

from leveret.core.codec.octets cimport clear_octets, copy_octets, write_u16, write_u32, write_u64
from leveret.core.log.batch cimport Publisher
from leveret.core.log.journal cimport Journal
from leveret.core.log.records cimport (
    FLOOR, GROUP, GROUP_HEAD_BYTES, NOTE_BYTES, SHARED, STATE, STATE_BYTES, padded, write_head, write_note,
)
from leveret.core.log.segment cimport Segment

cdef Py_ssize_t DESCRIPTOR_BYTES_MAX, MEMBERS_MAX


@cython.final
cdef class SharedLog(Publisher):
    cdef readonly Journal journal
    cdef readonly object on_synced
    cdef readonly unsigned long long entries_total
    cdef readonly unsigned long long entry_bytes_total

    @cython.locals(head=Py_ssize_t, size=Py_ssize_t, journal=Journal, location="unsigned long long", at=Py_ssize_t, p="unsigned char*", source="const unsigned char*")
    cpdef unsigned long long append_entry(self, unsigned long long group, unsigned long long index, unsigned long long term, unsigned char kind, bytes descriptor, bytes payload) except 0
    @cython.locals(journal=Journal, location="unsigned long long")
    cpdef unsigned long long append_state(self, unsigned long long group, unsigned long long term, unsigned long long vote, unsigned long long commit) except 0
    @cython.locals(count=Py_ssize_t, length=Py_ssize_t, location="unsigned long long", journal=Journal, at=Py_ssize_t, p="unsigned char*", replica="unsigned long long")
    cpdef unsigned long long append_floor(self, unsigned long long group, unsigned long long index, unsigned long long term, object voters, object learners, bint anew) except 0
    @cython.locals(journal=Journal, at=Py_ssize_t, p="unsigned char*", q="unsigned char*", segment=Segment)
    cdef unsigned long long begin(self, Py_ssize_t length, int kind, unsigned long long group, unsigned long long term, unsigned long long index, unsigned int what) except 0
    cpdef int release(self, unsigned long long location) except -1
    cpdef int sync(self, unsigned long long ticket) except -1
