# C types of the headers matcher; the meaning of each field stands here.

cimport cython

from leveret.core.header_condition cimport EQUAL, HeaderCondition, exact_key, match_key
from leveret.core.matcher cimport Matcher, discard_one


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

    @cython.locals(condition=HeaderCondition)
    cdef bint matches(self, dict headers) except -1


@cython.final
cdef class HeaderIndex:
    # Match key of a value -> bindings to try when a message has exactly that value. No empty list.
    cdef dict by_value
    # Bindings to try whenever the header is there at all.
    cdef list by_presence

    @cython.locals(bindings=list)
    cdef Py_ssize_t size_at(self, HeaderCondition condition) except -1
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

    @cython.locals(binding=HeadersBinding, condition=HeaderCondition)
    cpdef void add(self, bytes key, dict arguments, object destination) except *
    @cython.locals(binding=HeadersBinding, condition=HeaderCondition, alike=list)
    cpdef void remove(self, bytes key, dict arguments, object destination) except *
    @cython.locals(headers=dict, index=HeaderIndex, bindings=list, binding=HeadersBinding)
    cpdef void collect(self, bytes routing_key, object properties, list found) except *

    @cython.locals(index=HeaderIndex)
    cdef int put(self, HeaderCondition condition, HeadersBinding binding) except -1
    @cython.locals(index=HeaderIndex)
    cdef int take_out(self, HeaderCondition condition, HeadersBinding binding) except -1
    @cython.locals(condition=HeaderCondition, best=HeaderCondition, index=HeaderIndex, size=Py_ssize_t, best_size=Py_ssize_t)
    cdef HeaderCondition choose_anchor(self, list conditions)
