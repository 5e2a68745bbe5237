cimport cython

from leveret.core.codec.properties cimport Properties


cdef Py_ssize_t SHORT_PROPERTIES_BYTES


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

@cython.locals(properties_size=Py_ssize_t)
cpdef Py_ssize_t weight_of(Message message) except -1

@cython.locals(stub=Message)
cpdef Message stub_of(Message message, unsigned long long location, unsigned int length)

cpdef Message shown(Message message)
