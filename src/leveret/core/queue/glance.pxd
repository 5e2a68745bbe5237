cimport cython

from leveret.core.log.cold cimport write_slot
from leveret.core.queue.contract cimport Entry
from leveret.core.log.journal cimport Journal
from leveret.core.queue.leveled_queue cimport LeveledQueue
from leveret.core.log.load cimport Load
from leveret.core.codec.message cimport Message
from leveret.core.codec.octets cimport read_u32, read_u64
from leveret.core.queue.ready cimport ReadyList
from leveret.core.log.slot cimport BODY_SIZE, DELIVERIES, LENGTH, SLOT_BYTES



@cython.final
cdef class Glance:
    cdef readonly unsigned long long position
    cdef readonly Message message
    cdef readonly bytes body
    cdef readonly Py_ssize_t body_size
    cdef readonly bint seen
    cdef readonly unsigned int delivery_count
    cdef unsigned long long location
    cdef unsigned int length

    cpdef object drop(self)


cpdef Glance glance_at(Entry entry)

@cython.locals(ready=ReadyList, found=list)
cpdef list glance(LeveledQueue queue, Py_ssize_t offset, Py_ssize_t count)

@cython.locals(ready=ReadyList, found=list)
cpdef list glance_after(LeveledQueue queue, unsigned long long position, Py_ssize_t count)

@cython.locals(ready=ReadyList, count=Py_ssize_t)
cpdef Py_ssize_t returned_count(LeveledQueue queue) except -1

@cython.locals(end=Py_ssize_t, passed=Py_ssize_t, i=Py_ssize_t, position="unsigned long long", message=Message, load=Load)
cdef int look_into(ReadyList ready, Py_ssize_t offset, Py_ssize_t count, list found) except -1

@cython.locals(behind=list, entry=Entry, start=Py_ssize_t, end=Py_ssize_t, i=Py_ssize_t, at="unsigned long long", message=Message, load=Load, seen=Glance)
cdef int look_behind(ReadyList ready, unsigned long long position, Py_ssize_t count, list found) except -1

@cython.locals(kept=list, kept_at=Py_ssize_t, i=Py_ssize_t, slot=bytearray, seen=Glance)
cdef int look_into_cold(ReadyList ready, Py_ssize_t start, Py_ssize_t end, list found) except -1

@cython.locals(p="const unsigned char*", position="unsigned long long", deliveries="unsigned int", made=Glance)
cdef Glance glance_at_slot(ReadyList ready, bytearray slots, Py_ssize_t at)

@cython.locals(found=list, candidates=list, at=Py_ssize_t, child=Py_ssize_t, entry=Entry)
cdef list smallest(list heap, Py_ssize_t count)


@cython.final
cdef class Reading:
    cdef readonly LeveledQueue queue
    cdef readonly bytes name
    cdef list glances
    cdef readonly Py_ssize_t at
    cdef list loaded
    cdef object done
    cdef bint unwritten

    cpdef bint is_over(self)
    @cython.locals(load=Load, seen=Glance, at=Py_ssize_t, p="unsigned char*")
    cpdef Load take_load(self, Journal journal)
    @cython.locals(ready=ReadyList, at=Py_ssize_t)
    cdef int locate(self, Glance seen) except -1
    cpdef bint is_loading(self, Load load)
    @cython.locals(i=Py_ssize_t, message=Message, seen=Glance)
    cpdef object finish_load(self, Load load)
    cpdef bint lacks_next(self)
