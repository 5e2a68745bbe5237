cimport cython

cdef enum:
    BOUNDS_MAX = 16


@cython.final
cdef class Histogram:
    cdef readonly tuple bounds
    cdef readonly unsigned long long sum
    cdef unsigned long long limits[BOUNDS_MAX]
    cdef unsigned long long tallies[BOUNDS_MAX + 1]
    cdef int size

    @cython.locals(i=int)
    cpdef void note(self, unsigned long long value) noexcept
    @cython.locals(i=int)
    cpdef void note_many(self, unsigned long long value, unsigned long long times) noexcept
