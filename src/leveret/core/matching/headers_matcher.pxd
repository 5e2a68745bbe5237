# C types of the headers matcher; the meaning of each field stands here.

cimport cython

from leveret.core.matching.header_condition cimport EQUAL, HeaderCondition, HeaderValue, exact_key, match_key
from leveret.core.matching.matcher cimport Matcher, Steps, discard_one
from leveret.core.observe.meter cimport NODES_SHIFT, Meter

cdef Py_ssize_t HEADER_COST, BINDING_COST, CONDITION_COST, TRIED_A_STEP


cdef class HeadersMatcher(Matcher)
cdef class HeadersSteps(Steps)


@cython.final
cdef class HeadersBinding:
    cdef object destination
    cdef list conditions
    # True for x-match any: one condition is enough.
    cdef bint any
    # True if being found under an equal value is all that the binding asks.
    cdef bint sure
    # For x-match all: the one condition it is filed under. None for any, and for all without conditions.
    cdef HeaderCondition anchor

    cdef Py_ssize_t cost(self) except -1
    @cython.locals(condition=HeaderCondition, value=HeaderValue)
    cdef bint matches(self, dict headers, dict seen, HeadersMatcher matcher) except -1


@cython.final
cdef class HeaderIndex:
    # Match key of a value -> bindings to try when a message has exactly that value. No empty list.
    cdef dict by_value
    # Bindings to try whenever the header is there at all.
    cdef list by_presence

    @cython.locals(bindings=list)
    cdef Py_ssize_t size_at(self, HeaderCondition condition) except -1
    cdef list equal_to(self, object value)
    @cython.locals(bindings=list)
    cdef int put(self, HeaderCondition condition, HeadersBinding binding) except -1
    @cython.locals(bindings=list)
    cdef int take_out(self, HeaderCondition condition, HeadersBinding binding) except -1


cdef class HeadersMatcher(Matcher):
    # Header name -> where its bindings are filed. No empty index.
    cdef dict by_name
    # Destinations of the bindings that ask for nothing; one entry per binding.
    cdef list always
    # (binding key, exact arguments, identity of the destination) -> the bindings that are alike in these.
    cdef dict held
    # Whether arguments that begin with x- count only with x-match all-with-x and any-with-x, as in RabbitMQ.
    cdef bint ignore_x

    @cython.locals(binding=HeadersBinding, condition=HeaderCondition)
    cpdef void add(self, bytes key, dict arguments, object destination) except *
    @cython.locals(binding=HeadersBinding, condition=HeaderCondition, alike=list)
    cpdef void remove(self, bytes key, dict arguments, object destination) except *
    @cython.locals(headers=dict, seen=dict, index=HeaderIndex, bindings=list)
    cpdef void collect(self, bytes routing_key, object properties, list found) except *
    @cython.locals(at=Py_ssize_t, binding=HeadersBinding)
    cdef int try_some(
        self, list bindings, Py_ssize_t start, Py_ssize_t end, bint equal, dict headers, dict seen, list found
    ) except -1
    @cython.locals(steps=HeadersSteps)
    cpdef Steps start(self, bytes routing_key, object properties, list found, Meter meter)

    @cython.locals(index=HeaderIndex)
    cdef int put(self, HeaderCondition condition, HeadersBinding binding) except -1
    @cython.locals(index=HeaderIndex)
    cdef int take_out(self, HeaderCondition condition, HeadersBinding binding) except -1
    @cython.locals(condition=HeaderCondition, best=HeaderCondition, index=HeaderIndex, size=Py_ssize_t, best_size=Py_ssize_t)
    cdef HeaderCondition choose_anchor(self, list conditions)


cdef class HeadersSteps(Steps):
    cdef HeadersMatcher matcher
    cdef dict headers
    cdef dict seen
    cdef list names
    cdef Py_ssize_t name_at
    # None if all that were found have been tried.
    cdef list bindings
    cdef Py_ssize_t at
    # Whether they are filed under the value, not under the name alone.
    cdef bint equal

    @cython.locals(matcher=HeadersMatcher, end=Py_ssize_t)
    cpdef bint go_on(self, Meter meter, list found) except -1
    @cython.locals(index=HeaderIndex, name=str)
    cdef bint find_bindings(self) except -1
