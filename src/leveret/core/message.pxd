cimport cython

from leveret.core.properties cimport Properties


@cython.final
@cython.no_gc
@cython.freelist(2048)
cdef class Message:
    cdef readonly bytes address
    cdef readonly Properties properties
    cdef readonly bytes body


@cython.locals(message=Message)
cpdef Message make_message(bytes address, Properties properties, bytes body)
