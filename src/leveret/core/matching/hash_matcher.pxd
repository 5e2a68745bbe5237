# C types of the matchers that pick one destination, and their hash.

cimport cython
from libc.math cimport log

from leveret.core.matching.matcher cimport Matcher, discard_one


# A slot is the highest 15 bits of a hash.
cdef enum:
    SLOT_COUNT = 32768
    SLOT_SHIFT = 49


# FNV-1a over the octets, then a finalizer, since FNV alone leaves the high bits of short keys poor. Routes must be
# the same in every process and after every restart, so this never changes. Interpreted twins in the .py.
cdef inline unsigned long long mix(unsigned long long number) noexcept:
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9ULL
    number = (number ^ (number >> 27)) * 0x94D049BB133111EBULL
    return number ^ (number >> 31)

cdef inline unsigned long long hash_octets(bytes octets) noexcept:
    cdef const unsigned char* p = octets
    cdef Py_ssize_t at
    cdef unsigned long long number = 0xCBF29CE484222325ULL
    for at in range(len(octets)):
        number = (number ^ p[at]) * 0x100000001B3ULL
    return mix(number)

# A number in the open interval (0, 1), different for every pair of seed and slot.
cdef inline double draw(unsigned long long seed, unsigned long long slot) noexcept:
    return ((mix(seed + (slot + 1) * 0x9E3779B97F4A7C15ULL) >> 11) + 0.5) * (1.0 / 9007199254740992.0)


@cython.final
cdef class Member:
    cdef object destination
    cdef bytes name
    # From the name alone, unless a destination of the same name was here before; see `salt_for`.
    cdef Py_ssize_t salt
    cdef unsigned long long seed
    # The keys of its bindings in the order they came; the first one is the weight.
    cdef list keys
    cdef double weight


cdef class ConsistentHashMatcher(Matcher):
    cdef readonly str hash_header
    cdef readonly str hash_property
    # id(destination) -> Member; the member holds the destination, so the id stays taken.
    cdef dict members
    # The member that won each slot; empty while there is no member.
    cdef list owners

    @cython.locals(member=Member)
    cpdef void add(self, bytes key, dict arguments, object destination) except *
    @cython.locals(member=Member, first=bint)
    cpdef void remove(self, bytes key, dict arguments, object destination) except *
    @cython.locals(member=Member, hashed=bytes)
    cpdef void collect(self, bytes routing_key, object properties, list found) except *

    cdef bytes hashed_octets(self, object properties)
    @cython.locals(member=Member, salt=Py_ssize_t)
    cdef Py_ssize_t salt_for(self, bytes name) except -1
    @cython.locals(slot=Py_ssize_t, owner=Member, limit=double)
    cdef int enter(self, Member member) except -1
    @cython.locals(slot=Py_ssize_t, owner=Member, best=Member, other=Member, score=double, best_score=double, others=list)
    cdef int leave(self, Member member) except -1


cdef double score_below(Member member, Py_ssize_t slot, double limit) noexcept


cdef class OrderedMatcher(Matcher):
    # The place of every binding in order, and beside it the destinations.
    cdef list order
    cdef list destinations

    cdef tuple place(self, bytes key, dict arguments, object destination)
    @cython.locals(place=tuple, at=Py_ssize_t)
    cpdef void add(self, bytes key, dict arguments, object destination) except *
    @cython.locals(place=tuple, at=Py_ssize_t)
    cpdef void remove(self, bytes key, dict arguments, object destination) except *


cdef class ModulusHashMatcher(OrderedMatcher):
    cdef tuple place(self, bytes key, dict arguments, object destination)
    @cython.locals(size=Py_ssize_t)
    cpdef void collect(self, bytes routing_key, object properties, list found) except *


cdef class RandomMatcher(Matcher):
    # pick(n) gives a number from 0 to n - 1.
    cdef object pick
    cdef list destinations

    @cython.locals(size=Py_ssize_t, at=Py_ssize_t)
    cpdef void collect(self, bytes routing_key, object properties, list found) except *


cdef bytes name_of(object destination)

cdef bytes octets_of(object value)
