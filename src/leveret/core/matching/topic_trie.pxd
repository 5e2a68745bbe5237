# C types of the topic trie; the meaning of each field stands here, the algorithm in the .py.

cimport cython

from leveret.core.matching.matcher cimport Matcher, Steps, discard_one
from leveret.core.observe.meter cimport NODES_SHIFT, Meter
from leveret.core.codec.octets cimport same_octets, take

cdef enum:
    DOT = 0x2E


@cython.final
cdef class TopicNode:
    # The literal words behind this node: one stands in the node itself, several in a dict. Never both. Most
    # nodes have one or none, and every object less on the way is a cache miss less when there are many bindings.
    cdef bytes only_word
    cdef TopicNode only
    cdef dict children
    # The node behind '*', and the one behind '#'.
    cdef TopicNode star
    cdef TopicNode hash
    # True for a node that itself stands behind a '#', so that it may swallow further words.
    cdef bint swallows
    # Destinations of the bindings that end here, one entry per binding: the first in the node itself, further ones
    # in a list that is never empty. `more` is None unless `destination` is set.
    cdef object destination
    cdef list more
    # The step that last reached this node: a node is visited once per word, however many ways lead to it.
    cdef unsigned long long reached


cdef class TopicMatcher(Matcher):
    cdef TopicNode root
    # Counts steps over all matches; never repeats, so that `reached` needs no clearing.
    cdef unsigned long long step
    # Working sets: room for the nodes before and after a step. Kept from match to match, because making lists was
    # a third of a match's time (221 -> 161 ns); what stands in them between matches means nothing.
    cdef list active
    cdef list following

    @cython.locals(node=TopicNode, child=TopicNode, word=bytes)
    cpdef void add(self, bytes key, dict arguments, object destination) except *

    @cython.locals(node=TopicNode, path=list, words=list, word=bytes, at=Py_ssize_t)
    cpdef void remove(self, bytes key, dict arguments, object destination) except *

    @cython.locals(
        active=list, following=list, p="const unsigned char*",
        size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, count=Py_ssize_t,
    )
    cpdef void collect(self, bytes routing_key, object properties, list found) except *
    @cython.locals(steps=TopicSteps)
    cpdef Steps start(self, bytes routing_key, object properties, list found, Meter meter)


cdef class TopicSteps(Steps):
    cdef TopicMatcher matcher
    cdef bytes key
    # The nodes that the words so far can have led to are the first `count` of these; room for those after the next one.
    cdef list active
    cdef list following
    cdef Py_ssize_t count
    # Where in the key the next word starts.
    cdef Py_ssize_t at

    @cython.locals(matcher=TopicMatcher, p="const unsigned char*", size=Py_ssize_t, end=Py_ssize_t)
    cpdef bint go_on(self, Meter meter, list found) except -1


@cython.locals(node=TopicNode, at=Py_ssize_t)
cdef int harvest(list active, Py_ssize_t count, list found) except -1



cdef list words_of(bytes key)

cdef TopicNode child_of(TopicNode node, bytes word)

@cython.locals(child=TopicNode)
cdef TopicNode grow_child(TopicNode node, bytes word)

cdef int cut_child(TopicNode node, bytes word) except -1

cdef bint is_bare(TopicNode node)

cdef int drop_destination(TopicNode node, object destination) except -1

cdef Py_ssize_t reach(TopicNode node, unsigned long long step, list active, Py_ssize_t count) except -1

@cython.locals(node=TopicNode, child=TopicNode, word=bytes, size=Py_ssize_t, count=Py_ssize_t, at=Py_ssize_t)
cdef Py_ssize_t advance(
    list active, Py_ssize_t active_count, list following, unsigned long long step,
    const unsigned char* p, Py_ssize_t start, Py_ssize_t end,
) except -1
