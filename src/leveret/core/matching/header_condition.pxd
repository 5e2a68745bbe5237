# C types of one condition of a headers binding.

cimport cython

# What a condition asks of its header: to be there, to be equal, or to be equal or satisfy a predicate.
cdef enum:
    PRESENT = 0
    EQUAL = 1
    PREDICATE = 2

cdef enum:
    GREATER = 0
    GREATER_EQUAL = 1
    LESS = 2
    LESS_EQUAL = 3
    DIFFERENT = 4


@cython.final
cdef class HeaderValue:
    cdef object value
    # See match_key.
    cdef object key
    # Whether the two below are known: the number it is or reads as, and its text if it is one. None if not.
    cdef bint read
    cdef object number
    cdef str text

    cdef object as_number(self)


@cython.final
cdef class HeaderCondition:
    cdef readonly str name
    cdef readonly int kind
    # The match key of the value; None for PRESENT.
    cdef readonly object key
    # The predicate's parts: `number` is None if the operand is no number.
    cdef int operator
    cdef object number
    cdef str text

    cpdef bint holds(self, object value) except -1
    cdef bint accepts(self, HeaderValue seen) except -1
    cdef bint satisfies(self, HeaderValue seen) except -1


cpdef object match_key(object value)

@cython.locals(name=str)
cpdef object exact_key(object value)

cdef object number_of(object value)
