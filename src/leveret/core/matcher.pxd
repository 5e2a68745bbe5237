# The contract of every matcher, and the two that need no file of their own.

cimport cython


cdef class Matcher:
    # True if the result depends on the routing key alone, so that the caller may cache it per key.
    cdef readonly bint by_key_only
    # True if one `collect` with the first routing key is all there is to a message, however many CC keys it has:
    # a hash or random exchange picks once per message, and fanout and headers would only repeat themselves.
    cdef readonly bint first_key_only
    # Number of bindings held.
    cdef readonly Py_ssize_t count

    cpdef void add(self, bytes key, dict arguments, object destination) except *
    cpdef void remove(self, bytes key, dict arguments, object destination) except *
    cpdef void collect(self, bytes routing_key, object properties, list found) except *


cdef class DirectMatcher(Matcher):
    # Binding key -> its destinations, one entry per binding; never an empty list.
    cdef dict by_key

    @cython.locals(destinations=list)
    cpdef void add(self, bytes key, dict arguments, object destination) except *
    @cython.locals(destinations=list)
    cpdef void remove(self, bytes key, dict arguments, object destination) except *
    @cython.locals(destinations=list)
    cpdef void collect(self, bytes routing_key, object properties, list found) except *


cdef class FanoutMatcher(Matcher):
    # One entry per binding, so a destination bound twice stands here twice.
    cdef list destinations


@cython.locals(at=Py_ssize_t)
cdef int discard_one(list destinations, object destination) except -1
