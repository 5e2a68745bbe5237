# C types of the hash. 64 bits hold every product of two numbers of 32, so nothing overflows before it is cut.

cimport cython

ctypedef unsigned long long number_t

# As C variables, because Cython takes a literal this large for a Python object.
cdef number_t _32_BITS, _FIRST, _SECOND, _ADDED, _LAST_BUT_ONE, _LAST


@cython.locals(p="const unsigned char*", size=Py_ssize_t, whole=Py_ssize_t, at=Py_ssize_t, number=number_t, word=number_t)
cpdef number_t murmur3_32(bytes octets, number_t seed) except? 0
