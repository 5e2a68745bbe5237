cimport cython

from leveret.core.log.cold cimport write_slot
from leveret.core.codec.octets cimport copy_octets, read_u32, read_u64, take, write_u32
from leveret.core.log.records cimport COUNTED, EXPIRES_BIT, GROUP, HANDED, KEY, KIND_MASK, MOMENT, NOTE_BYTES, PLACED, SETTLED
from leveret.core.log.slot cimport DELIVERIES, PRIORITY, SLOT_BYTES

cdef unsigned long long DELAYED, SEQUENCE_MASK


@cython.final
cdef class QueueBook:
    cdef readonly bytearray slots
    cdef readonly Py_ssize_t count
    cdef bint in_order
    cdef unsigned long long last_position
    cdef readonly unsigned long long handed
    cdef dict times
    cdef list runs
    cdef readonly unsigned long long next_position
    cdef readonly unsigned long long delay_sequence
    cdef readonly bint expiring
    cdef readonly list keys

    @cython.locals(at=Py_ssize_t)
    cdef int place(self, unsigned long long position, unsigned long long location, unsigned int length, unsigned int body_size, unsigned int priority) except -1
    @cython.locals(run=list)
    cdef int settle(self, unsigned long long first, unsigned long long end) except -1
    cdef int reach(self, unsigned long long position) except -1
    @cython.locals(p="unsigned char*", to=Py_ssize_t, run_at=Py_ssize_t, run_first="unsigned long long", run_end="unsigned long long", i=Py_ssize_t, at=Py_ssize_t, position="unsigned long long", segment="unsigned long long")
    cpdef int finish(self, dict live, set superseded) except -1
    @cython.locals(i=Py_ssize_t)
    cdef object sort(self)
    cdef unsigned int deliveries(self, unsigned long long position) except? 0xFFFFFFFF


@cython.final
cdef class Rebuild:
    cdef readonly dict books
    cdef readonly unsigned long long now_ms
    cdef readonly unsigned long long wall_ms
    cdef readonly list shared

    cdef QueueBook book(self, unsigned long long queue)
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, queue="unsigned long long", book=QueueBook, last_settled="unsigned int", first="unsigned long long", a="unsigned int", b="unsigned int", high="unsigned long long", location="unsigned long long", what="unsigned int", kind="unsigned int", flags="unsigned int")
    cpdef int add_notes(self, bytearray notes, Py_ssize_t start, Py_ssize_t end, unsigned long long segment, set segments, set settles) except -1
