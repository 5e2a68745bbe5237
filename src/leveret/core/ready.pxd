cimport cython

from leveret.core.cold cimport ColdList, write_slot
from leveret.core.contract cimport Entry, make_entry
from leveret.core.fresh cimport FreshRing
from leveret.core.journal cimport Journal
from leveret.core.ledger cimport Ledger
from leveret.core.load cimport Load
from leveret.core.message cimport Message
from leveret.core.octets cimport read_u32, read_u64
from leveret.core.ring cimport Ring
from leveret.core.shelf cimport Shelf

cdef Py_ssize_t SLOT_BYTES, LENGTH, BODY_SIZE, DELIVERIES, LOOKED_AT_MAX


@cython.final
cdef class ReadyList:
    cdef Shelf shelf
    cdef Ledger ledger
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

    cdef bint owns(self, Message message)
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
    cdef int forget_damaged(self, unsigned long long position, unsigned long long location, unsigned int body_size) except -1
    cdef int let_go(self, unsigned long long position, unsigned long long location, unsigned int body_size) except -1
    cpdef object clear(self)
    @cython.locals(entry=Entry, message=Message, load=Load, i=Py_ssize_t, at=Py_ssize_t, p="const unsigned char*")
    cdef int let_all_go(self) except -1
    cpdef Py_ssize_t page_out(self, Py_ssize_t bytes_max) except -1
    @cython.locals(freed=Py_ssize_t, message=Message, location="unsigned long long", length="unsigned int")
    cdef Py_ssize_t chill(self, Py_ssize_t bytes_max) except -1
    @cython.locals(freed=Py_ssize_t, i=Py_ssize_t, message=Message, location="unsigned long long")
    cdef Py_ssize_t page_kept(self, Py_ssize_t bytes_max) except -1
    @cython.locals(entry=Entry, i=Py_ssize_t, count=Py_ssize_t, octets="long long")
    cpdef tuple in_memory(self)
    @cython.locals(i=Py_ssize_t)
    cpdef list entries(self)
    @cython.locals(entry=Entry, message=Message, i=Py_ssize_t)
    cpdef int collect_located(self, unsigned long long number, dict found) except -1
    @cython.locals(i=Py_ssize_t)
    cpdef Py_ssize_t find_cold(self, unsigned long long position, unsigned long long location) except? -1
    cpdef unsigned int move_cold(self, Py_ssize_t index, unsigned long long location, unsigned int length) except? 0xFFFFFFFF


cpdef unsigned long long position_of(Entry entry)

@cython.locals(at=Py_ssize_t, parent=Py_ssize_t, above=Entry)
cdef int heap_push(list heap, Entry entry) except -1

@cython.locals(last=Entry, smallest=Entry, left=Entry, right=Entry, at=Py_ssize_t, child=Py_ssize_t, size=Py_ssize_t)
cdef Entry heap_pop(list heap)
