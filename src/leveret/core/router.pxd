cimport cython

from leveret.core.contract cimport Queue
from leveret.core.dedup cimport Window
from leveret.core.matcher cimport Matcher
from leveret.core.properties cimport Properties
from leveret.core.tap cimport Tap


cdef Py_ssize_t CACHED_TARGETS_MAX


cdef class NamesMatcher(Matcher):
    cdef dict queues
    cdef dict replies


@cython.final
cdef class Exchange:
    cdef readonly bytes name
    cdef readonly Matcher matcher
    cdef readonly bint internal
    cdef public bytes alternate
    cdef public object record
    cdef readonly dict downstream
    cdef public Window window
    cdef public Queue holder
    cdef public Queue keeper
    cdef public Tap tap
    cdef readonly unsigned long long published_total
    cdef readonly unsigned long long routed_total
    cdef readonly unsigned long long unroutable_total
    # See core.contract.Queue
    cdef public object series
    cdef public unsigned long long sampled


@cython.final
@cython.freelist(256)
cdef class Route:
    cdef bytes address
    cdef bytes key
    cdef Exchange exchange
    # The queues for this address, or None where each message must be looked at.
    cdef tuple targets
    cdef unsigned long long generation


@cython.final
cdef class Router:
    cdef readonly dict exchanges
    cdef readonly dict queues
    cdef readonly unsigned long long generation
    cdef dict routes
    cdef Py_ssize_t cached_targets

    cpdef object changed(self)
    @cython.locals(route=Route, exchange=Exchange)
    cpdef Route route(self, bytes address)
    @cython.locals(exchange=Exchange, nearby=list)
    cdef bint by_key_only(self, Exchange start)
    @cython.locals(exchange=Exchange, queue=Queue, matcher=Matcher)
    cpdef tuple resolve(self, Exchange start, list keys, object properties)
