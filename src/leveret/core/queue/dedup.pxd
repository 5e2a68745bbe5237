cimport cython

from leveret.core.log.batch cimport NoteSource
from leveret.core.log.journal cimport Journal
from leveret.core.codec.properties cimport Properties

cdef int OWN_TTL_BITS
cdef unsigned long long OWN_TTL_MASK, OWN_TTL_UNIT_MS, EPOCH_MS

cpdef bytes digest_of(Properties properties)
cpdef object own_ttl_of(Properties properties)
cdef unsigned long long make_value(unsigned long long seen_ms, unsigned long long own) noexcept
cdef unsigned long long seen_at(unsigned long long value) noexcept


@cython.final
cdef class DedupWindow(NoteSource):
    cdef Journal journal
    cdef readonly Py_ssize_t size_max
    cdef readonly long long ttl_ms
    cdef readonly dict keys
    cdef dict noted
    cdef list unnoted
    cdef readonly unsigned long long duplicates_total

    @cython.locals(ttl_ms="unsigned long long")
    cdef bint is_over(self, unsigned long long value, unsigned long long now)
    cpdef bint knows(self, bytes digest, unsigned long long now) except -1
    cpdef bint has(self, bytes digest, unsigned long long now) except -1
    @cython.locals(own="unsigned long long")
    cpdef int remember(self, bytes digest, unsigned long long now, unsigned long long own_ttl_ms, bint persistent) except -1
    cdef int forget_old(self, unsigned long long now) except -1
    cpdef object resize(self, Py_ssize_t size_max, long long ttl_ms)
    cpdef bint note_again(self, unsigned long long segment) except -1
    cpdef object restore(self, list found, unsigned long long now)
    cpdef object close(self)
