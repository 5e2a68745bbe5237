cimport cython

from leveret.core.properties cimport Properties


@cython.final
@cython.no_gc
@cython.freelist(2048)
cdef class Message:
    cdef readonly bytes address
    cdef readonly Properties properties
    # None while only the disk has it
    cdef readonly bytes body
    cdef readonly unsigned long long location
    # Octets of its record on disk
    cdef readonly unsigned int length
    cdef readonly unsigned int body_size
    cdef readonly bint lone
    cdef public unsigned long long stamp


@cython.locals(message=Message)
cpdef Message make_message(bytes address, Properties properties, bytes body)

cpdef Message shown(Message message)
