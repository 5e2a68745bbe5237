cimport cython

from leveret.core.queue.contract cimport Queue
from leveret.core.queue.dedup cimport DedupWindow
from leveret.core.matching.matcher cimport Matcher, Steps
from leveret.core.observe.meter cimport FOUND_SHIFT, NODES_SHIFT, Meter
from leveret.core.codec.properties cimport Properties
from leveret.core.observe.tap cimport Tap


cdef Py_ssize_t CACHED_TARGETS_MAX, WALKED_STEPS_MIN


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
    cdef public bint deleted
    cdef readonly dict downstream
    cdef public DedupWindow window
    cdef public Queue holder
    cdef public Queue exchange_store
    cdef public Tap tap
    cdef public bint gives_ids
    cdef readonly unsigned long long published_total
    cdef readonly unsigned long long routed_total
    cdef readonly unsigned long long unroutable_total
    # See core.queue.contract.Queue
    cdef public object series
    cdef public unsigned long long sampled


@cython.final
@cython.freelist(256)
cdef class Route:
    cdef bytes address
    cdef bytes key
    cdef Exchange exchange
    # Whether they depend on nothing but the address; the queues for it, None while nobody has asked or if they do not.
    cdef bint keyed
    cdef tuple targets
    cdef unsigned long long generation


@cython.final
cdef class Walk:
    cdef dict exchanges
    cdef list keys
    cdef object properties
    cdef Exchange exchange
    cdef Py_ssize_t key_at
    cdef Steps steps
    cdef list found
    cdef list todo
    cdef dict reached
    cdef set seen

    cpdef bint go_on(self, Meter meter) except -1
    @cython.locals(matcher=Matcher)
    cdef bint ask(self, Meter meter) except -1
    cdef int follow(self) except -1


@cython.final
cdef class Router:
    cdef readonly Meter meter
    cdef readonly dict exchanges
    cdef readonly dict queues
    cdef readonly unsigned long long generation
    cdef dict routes
    cdef Py_ssize_t cached_targets

    cpdef object changed(self)
    @cython.locals(route=Route, exchange=Exchange)
    cpdef Route route(self, bytes address)
    cdef int count_cached(self, Py_ssize_t count) except -1
    cdef int remember(self, Route route, tuple targets) except -1
    cdef bint is_short(self, Exchange exchange)
    cpdef Walk walk(self, Exchange start, bytes key, object properties)
    @cython.locals(exchange=Exchange, nearby=list)
    cdef bint by_key_only(self, Exchange start)
    @cython.locals(exchange=Exchange, queue=Queue, matcher=Matcher)
    cpdef tuple resolve(self, Exchange start, list keys, object properties)
