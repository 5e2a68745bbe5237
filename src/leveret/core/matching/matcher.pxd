# The contract of every matcher, and the two that need no file of their own.

cimport cython

from leveret.core.observe.meter cimport Meter


cdef class Steps:
    cpdef bint go_on(self, Meter meter, list found) except -1


cdef class Matcher:
    # True if the result depends on the routing key alone, so that the caller may cache it per key.
    cdef readonly bint by_key_only
    # True if one `collect` with the first routing key is all there is to a message, however many CC keys it has:
    # a hash or random exchange picks once per message, and fanout and headers would only repeat themselves.
    cdef readonly bint first_key_only
    # Number of bindings held.
    cdef readonly Py_ssize_t count
    # About how much one step of a search may have to look at, 0 if it has no steps: few are not worth leaving.
    cdef readonly Py_ssize_t steps_max
    # Places looked at since the caller last charged for them.
    cdef public Py_ssize_t visited

    cpdef void add(self, bytes key, dict arguments, object destination) except *
    cpdef void remove(self, bytes key, dict arguments, object destination) except *
    cpdef void collect(self, bytes routing_key, object properties, list found) except *
    cpdef Steps start(self, bytes routing_key, object properties, list found, Meter meter)


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
    # Each destination once, with the number of its bindings: a queue may be bound a million times.
    cdef dict destinations


@cython.locals(at=Py_ssize_t)
cdef int discard_one(list destinations, object destination) except -1
