cimport cython

from leveret.core.queue.contract cimport Entry, Subscriber
from leveret.core.queue.priority_ready cimport PriorityReady
from leveret.core.log.load cimport Load
from leveret.core.codec.message cimport Message
from leveret.core.queue.plain_queue cimport PlainQueue
from leveret.core.queue.ready cimport ReadyList
from leveret.core.queue.release cimport RELEASED_A_STEP, Release, clear, part


cdef class LeveledQueue(PlainQueue):
    cdef PriorityReady levels
    cdef readonly unsigned long long purged_total
    cdef Release releasing

    cdef int step_down(self) except -1
    @cython.locals(level=ReadyList)
    cdef int put_back(self, Entry entry) except -1
    @cython.locals(level=ReadyList)
    cpdef object finish_load(self, Load load)
    cpdef bint is_loading(self, Load load) except -1
    @cython.locals(level=ReadyList)
    cpdef bint has_load(self) except -1
    @cython.locals(freed=Py_ssize_t, level=ReadyList)
    cpdef Py_ssize_t page_out(self, Py_ssize_t bytes_max) except -1
    cdef int restore_ready(self, bytearray slots, Py_ssize_t count, unsigned long long next_position, bint all_seen) except -1
    @cython.locals(level=ReadyList)
    cpdef int collect_located(self, unsigned long long number, dict found) except -1
    @cython.locals(level=ReadyList)
    cpdef unsigned int move_stored(self, unsigned long long position, unsigned long long location, unsigned long long to, unsigned int length) except? 0xFFFFFFFF
    @cython.locals(level=ReadyList)
    cdef ReadyList level_of(self, unsigned long long position, unsigned long long location)
    @cython.locals(level=ReadyList)
    cpdef object set_lazy(self, bint lazy)
    cpdef Py_ssize_t ready_total(self) except -1
    cpdef Py_ssize_t ready_bytes_total(self) except -1
    @cython.locals(level=ReadyList, lists=list, parted=list)
    cdef int clear(self) except -1
