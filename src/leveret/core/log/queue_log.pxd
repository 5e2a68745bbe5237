cimport cython

from leveret.core.log.batch cimport NoteSource
from leveret.core.log.journal cimport Journal
from leveret.core.log.records cimport COUNTED, HANDED


@cython.final
cdef class QueueLog(NoteSource):
    cdef readonly Journal journal
    cdef public unsigned long long handed
    cdef public unsigned long long noted_handed
    cdef unsigned long long run_first
    cdef unsigned int run_count
    cdef unsigned long long run_segment

    cpdef int hand_out(self, unsigned long long position, unsigned int times, unsigned long long location) except -1
    cpdef int count(self, unsigned long long position, unsigned int times, unsigned long long location) except -1
    @cython.locals(segment="unsigned long long")
    cpdef int settle(self, unsigned long long position, unsigned long long location, unsigned int body_size) except -1
    cdef int end_run(self) except -1
    cpdef bint note_again(self, unsigned long long segment) except -1
    cpdef object close(self)
