cimport cython

from leveret.core.codec.message cimport Message
from leveret.core.codec.octets cimport read_u32, read_u64
from leveret.core.log.load cimport Load
from leveret.core.queue.contract cimport Entry
from leveret.core.queue.entry_heap cimport heap_pop
from leveret.core.queue.office cimport Office
from leveret.core.queue.ready cimport ReadyList
from leveret.core.log.slot cimport BODY_SIZE, SLOT_BYTES

cdef enum:
    RELEASED_A_STEP = 16384
    RELEASED_SHIFT = 1


cpdef int clear(ReadyList ready) except -1
@cython.locals(parted=ReadyList)
cdef ReadyList part(ReadyList ready)
@cython.locals(entry=Entry, message=Message, load=Load, i=Py_ssize_t, at=Py_ssize_t, p="const unsigned char*")
cdef Py_ssize_t release_some(ReadyList ready, Py_ssize_t count_max) except -1


@cython.final
cdef class Release:
    cdef Office office
    cdef list lists
    cdef list awaiting

    cpdef bint is_done(self)
    @cython.locals(one=ReadyList)
    cpdef object go_on(self)
    @cython.locals(one=ReadyList)
    cpdef object finish(self)
    cdef int end(self) except -1
    cpdef object collect_located(self, unsigned long long number, dict found)
    cpdef object await_end(self, object call)
