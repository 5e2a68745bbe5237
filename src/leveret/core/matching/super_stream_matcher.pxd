# C types of the super stream's matcher.

cimport cython

from leveret.core.matching.hash_matcher cimport OrderedMatcher
from leveret.core.codec.murmur3 cimport murmur3_32


cdef class SuperStreamMatcher(OrderedMatcher):
    cdef tuple place(self, bytes key, dict arguments, object destination)
    @cython.locals(size=Py_ssize_t)
    cpdef void collect(self, bytes routing_key, object properties, list found) except *
