cimport cython

from leveret.core.codec.message cimport Message, weight_of
from leveret.core.codec.octets cimport copy_octets, read_u64, write_u64

cdef Py_ssize_t KEPT_SLOTS_MAX, FIRST_SLOTS


@cython.final
cdef class FreshRing:
    cdef list slots
    cdef bytearray positions
    cdef Py_ssize_t head
    cdef Py_ssize_t mask
    cdef readonly Py_ssize_t count
    cdef readonly long long bytes
    cdef readonly long long weight
    cdef readonly unsigned long long popped_position

    @cython.locals(size=Py_ssize_t, head=Py_ssize_t, i=Py_ssize_t, slots=list, p="unsigned char*")
    cdef int grow(self) except -1
    @cython.locals(at=Py_ssize_t, p="unsigned char*")
    cpdef int push(self, Message message, unsigned long long position) except -1
    @cython.locals(at=Py_ssize_t, p="unsigned char*", message=Message)
    cpdef Message pop(self)
    @cython.locals(at=Py_ssize_t, p="unsigned char*", message=Message)
    cpdef Message pop_last(self)
    cpdef object clear(self)
    cpdef Message message_at(self, Py_ssize_t index)
    @cython.locals(p="unsigned char*")
    cpdef unsigned long long position_at(self, Py_ssize_t index)
