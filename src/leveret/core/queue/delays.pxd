cimport cython

from leveret.core.queue.contract cimport Queue
from leveret.core.log.journal cimport Journal
from leveret.core.log.queue_log cimport QueueLog
from leveret.core.log.load cimport Load
from leveret.core.codec.message cimport Message, make_message, weight_of
from leveret.core.codec.octets cimport read_u32, read_u64
from leveret.core.queue.office cimport Office
from leveret.core.log.paging_context cimport PagingContext
from leveret.core.log.sorted_slots cimport SortedSlots
from leveret.core.log.slot cimport BODY_SIZE, SLOT_BYTES

cdef Py_ssize_t MESSAGE_BYTES, RELEASED_A_STEP
cdef unsigned long long DELAYED, EPOCH_MS, SEQUENCE_MASK
cdef int SEQUENCE_BITS

cpdef unsigned long long due_of(unsigned long long position)
cpdef unsigned long long first_at(unsigned long long due)


@cython.final
cdef class Delays:
    cdef readonly Queue owner
    cdef readonly bytes name
    cdef PagingContext paging_context
    cdef QueueLog queue_log
    cdef Office office
    cdef readonly SortedSlots slots
    cdef dict kept
    cdef Py_ssize_t kept_bytes
    cdef Load loading
    cdef unsigned long long sequence
    cdef unsigned long long doubtful_upto
    cdef readonly unsigned long long alarm_at
    cdef readonly unsigned long long added_total
    cdef readonly unsigned long long released_total
    cdef readonly unsigned long long cancelled_total
    cdef readonly unsigned long long quarantined_total

    @cython.locals(position="unsigned long long")
    cpdef int add(self, Message message) except -1
    @cython.locals(position="unsigned long long", last="unsigned long long")
    cdef unsigned long long free_position(self, unsigned long long due) except 0
    cdef int keep(self, unsigned long long position, Message message) except -1
    @cython.locals(message=Message)
    cdef Message unkeep(self, unsigned long long position)
    @cython.locals(p="const unsigned char*", i=Py_ssize_t, at=Py_ssize_t, last="unsigned long long")
    cpdef int restore(self, bytearray slots, Py_ssize_t start, Py_ssize_t count, unsigned long long sequence, bint doubtful) except -1
    @cython.locals(due="unsigned long long")
    cdef int set_alarm(self) except -1
    cpdef object ring(self)
    @cython.locals(left=Py_ssize_t, position="unsigned long long", message=Message)
    cpdef object go_on(self)
    cdef bint is_disk_behind(self)
    @cython.locals(location="unsigned long long", copy=Message)
    cdef int release(self, unsigned long long position, Message message) except -1
    cdef int let_go(self, unsigned long long position, unsigned long long location, unsigned int body_size) except -1
    @cython.locals(location="unsigned long long", body_size="unsigned int")
    cpdef bint cancel(self, unsigned long long position) except -1
    @cython.locals(slots=bytearray, p="const unsigned char*", i=Py_ssize_t, at=Py_ssize_t)
    cpdef object clear(self)
    cpdef object close(self)
    @cython.locals(load=Load, slots=bytearray, p="const unsigned char*", i=Py_ssize_t, at=Py_ssize_t, to=Py_ssize_t, position="unsigned long long")
    cpdef Load take_load(self, Journal journal)
    @cython.locals(position="unsigned long long")
    cpdef bint lacks_next(self) except -1
    cpdef bint is_loading(self, Load load) except -1
    cpdef bint has_load(self) except -1
    @cython.locals(i=Py_ssize_t, message=Message, position="unsigned long long", location="unsigned long long")
    cpdef object finish_load(self, Load load)
    @cython.locals(freed=Py_ssize_t, message=Message, location="unsigned long long")
    cpdef Py_ssize_t page_out(self, Py_ssize_t bytes_max) except -1
    cpdef bint find_stored(self, unsigned long long position, unsigned long long location) except -1
    @cython.locals(message=Message)
    cpdef unsigned int move_stored(self, unsigned long long position, unsigned long long to, unsigned int length) except? 0xFFFFFFFF
    @cython.locals(slots=bytearray, i=Py_ssize_t, at="unsigned long long")
    cpdef list waiting(self, unsigned long long position, Py_ssize_t limit)
