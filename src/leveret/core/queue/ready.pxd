cimport cython

from leveret.core.log.cold cimport ColdList, write_slot
from leveret.core.queue.contract cimport Entry, make_entry
from leveret.core.queue.entry_heap cimport heap_pop, heap_push
from leveret.core.queue.fresh cimport FreshRing
from leveret.core.log.journal cimport Journal
from leveret.core.log.queue_log cimport QueueLog
from leveret.core.log.load cimport Load
from leveret.core.codec.message cimport Message, stub_of, weight_of
from leveret.core.codec.octets cimport read_u32, read_u64
from leveret.core.queue.ring cimport Ring
from leveret.core.log.paging_context cimport PagingContext
from leveret.core.log.slot cimport BODY_SIZE, DELIVERIES, LENGTH, SLOT_BYTES

cdef Py_ssize_t LOOKED_AT_MAX, MESSAGE_BYTES, PAGED_BODY_BYTES_MIN, RETURNED_KEPT


@cython.final
cdef class ReadyList:
    cdef PagingContext paging_context
    cdef QueueLog queue_log
    cdef bint lazy
    cdef FreshRing fresh
    cdef list returned
    cdef ColdList cold
    cdef Ring kept
    cdef Load loading
    cdef readonly unsigned long long next_position
    cdef unsigned long long seen_upto
    cdef readonly Py_ssize_t count
    cdef readonly long long bytes
    cdef readonly long long kept_bytes
    cdef readonly long long returned_bytes
    cdef Py_ssize_t paged_at

    cdef bint owns(self, Message message)
    @cython.locals(context=PagingContext)
    cdef bint has_room(self)
    @cython.locals(context=PagingContext)
    cdef bint is_within_window(self)
    @cython.locals(position="unsigned long long", location="unsigned long long")
    cpdef int push(self, Message message) except -1
    cpdef unsigned long long skip(self) except 0
    cpdef int put_back(self, Entry entry) except -1
    @cython.locals(p="const unsigned char*", i=Py_ssize_t, at=Py_ssize_t)
    cpdef int restore(self, bytearray slots, Py_ssize_t count, unsigned long long next_position) except -1
    @cython.locals(entry=Entry)
    cpdef bint has_next(self)
    @cython.locals(entry=Entry)
    cdef Message next_message(self)
    cdef Entry next_returned(self)
    @cython.locals(entry=Entry, body_size="unsigned int")
    cdef int drop_next(self) except -1
    @cython.locals(message=Message)
    cpdef Message pop_message(self)
    @cython.locals(entry=Entry, message=Message)
    cpdef Entry pop(self)
    @cython.locals(entry=Entry)
    cpdef bint wants_load(self)
    @cython.locals(message=Message)
    cpdef int warm_up(self) except -1
    cdef int drop_first_cold(self) except -1
    @cython.locals(load=Load)
    cpdef Load take_load(self, Journal journal)
    @cython.locals(entry=Entry, message=Message, at=Py_ssize_t, p="unsigned char*")
    cdef int plan_returned(self, Load load, Journal journal) except -1
    @cython.locals(location="unsigned long long", at=Py_ssize_t)
    cdef int plan_cold(self, Load load, Journal journal) except -1
    cpdef bint has_load(self)
    cpdef bint is_loading(self, Load load)
    @cython.locals(p="const unsigned char*", i=Py_ssize_t, at=Py_ssize_t, message=Message)
    cpdef bint finish_load(self, Load load) except -1
    @cython.locals(entry=Entry)
    cdef int arrive(self, Message message, unsigned long long position, unsigned int deliveries) except -1
    @cython.locals(left=list)
    cdef int forget_lost(self, unsigned long long position, unsigned long long location, unsigned int body_size) except -1
    cdef int let_go(self, unsigned long long position, unsigned long long location, unsigned int body_size) except -1
    cdef int forget_all(self) except -1
    cpdef Py_ssize_t page_out(self, Py_ssize_t bytes_max) except -1
    @cython.locals(freed=Py_ssize_t, message=Message, location="unsigned long long", length="unsigned int")
    cdef Py_ssize_t chill(self, Py_ssize_t bytes_max) except -1
    @cython.locals(freed=Py_ssize_t, i=Py_ssize_t, message=Message, location="unsigned long long")
    cdef Py_ssize_t page_kept(self, Py_ssize_t bytes_max) except -1
    @cython.locals(message=Message, location="unsigned long long")
    cpdef Py_ssize_t page_entry(self, Entry entry) except -1
    @cython.locals(freed=Py_ssize_t)
    cdef Py_ssize_t page_returned(self, Py_ssize_t bytes_max) except -1
    cdef int forget_page(self, Message message) except -1
    @cython.locals(entry=Entry, i=Py_ssize_t, count=Py_ssize_t, octets="long long")
    cpdef tuple in_memory(self)
    @cython.locals(i=Py_ssize_t)
    cpdef list entries(self)
    @cython.locals(entry=Entry, message=Message, i=Py_ssize_t)
    cpdef int collect_located(self, unsigned long long number, dict found) except -1
    @cython.locals(i=Py_ssize_t)
    cpdef Py_ssize_t find_cold(self, unsigned long long position, unsigned long long location) except? -1
    cpdef unsigned int move_cold(self, Py_ssize_t index, unsigned long long location, unsigned int length) except? 0xFFFFFFFF
