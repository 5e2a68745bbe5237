cimport cython

from leveret.core.log.queue_log cimport QueueLog
from leveret.core.log.load cimport Load
from leveret.core.codec.message cimport Message
from leveret.core.codec.octets cimport read_u32
from leveret.core.queue.ready cimport ReadyList
from leveret.core.log.paging_context cimport PagingContext
from leveret.core.log.slot cimport PRIORITY, SLOT_BYTES



@cython.final
cdef class PriorityReady:
    cdef ReadyList base
    cdef readonly int priority_max
    cdef PagingContext paging_context
    cdef QueueLog queue_log
    cdef bint lazy
    cdef list lists
    cdef readonly list used

    @cython.locals(found=ReadyList)
    cpdef ReadyList list_for(self, int priority)
    @cython.locals(level=ReadyList)
    cdef ReadyList push(self, Message message)
    @cython.locals(level=ReadyList)
    cpdef ReadyList top(self)
    @cython.locals(level=ReadyList, total=Py_ssize_t)
    cpdef Py_ssize_t total_count(self) except -1
    @cython.locals(level=ReadyList, total="long long")
    cpdef long long total_bytes(self)
    @cython.locals(level=ReadyList)
    cpdef ReadyList loading(self, Load load)
    @cython.locals(i=Py_ssize_t, at=Py_ssize_t)
    cpdef object restore(self, bytearray slots, Py_ssize_t count, unsigned long long next_position)
