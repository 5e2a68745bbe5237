cimport cython

cdef enum:
    PLACED_WORK = 3
    GIVEN_WORK = 4
    SETTLED_WORK = 3
    OCTETS_SHIFT = 10
    NODES_SHIFT = 2
    FOUND_SHIFT = 1


@cython.final
cdef class Meter:
    cdef public unsigned long long spent
    cdef public unsigned long long limit

    cpdef bint is_over(self) noexcept
    cpdef object allow(self, unsigned long long work)
