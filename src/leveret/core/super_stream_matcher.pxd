# C types of the super stream's matcher.

cimport cython

from leveret.core.matcher cimport Matcher
from leveret.core.murmur3 cimport murmur3_32


cdef class SuperStreamMatcher(Matcher):
    # (partition, name, binding key) of every binding in order, and beside it the destinations.
    cdef list order
    cdef list destinations

    @cython.locals(at=Py_ssize_t)
    cpdef void add(self, bytes key, dict arguments, object destination) except *
    @cython.locals(at=Py_ssize_t)
    cpdef void remove(self, bytes key, dict arguments, object destination) except *
    @cython.locals(size=Py_ssize_t)
    cpdef void collect(self, bytes routing_key, object properties, list found) except *
