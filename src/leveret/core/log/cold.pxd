cimport cython

from leveret.core.codec.octets cimport copy_octets, read_u32, read_u64, write_u32, write_u64
from leveret.core.log.slot cimport SLOT_BYTES

cdef Py_ssize_t FIRST_SLOTS, CHUNK_SLOTS, CHUNK_SHIFT, CHUNK_MASK


@cython.final
cdef class ColdList:
    cdef list chunks
    cdef Py_ssize_t head
    cdef readonly Py_ssize_t count

    @cython.locals(end=Py_ssize_t, at=Py_ssize_t, chunk=bytearray)
    cpdef int push(self, unsigned long long position, unsigned long long location, unsigned int length, unsigned int body_size, unsigned int delivery_count) except -1
    @cython.locals(chunk=bytearray)
    cpdef int push_first(self, unsigned long long position, unsigned long long location, unsigned int length, unsigned int body_size) except -1
    cpdef int drop_first(self) except -1
    cpdef object clear(self)
    @cython.locals(at=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cpdef unsigned long long position_at(self, Py_ssize_t index)
    @cython.locals(at=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cpdef unsigned long long location_at(self, Py_ssize_t index)
    @cython.locals(at=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cpdef unsigned int number_at(self, Py_ssize_t index, Py_ssize_t field)
    @cython.locals(at=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cpdef int move(self, Py_ssize_t index, unsigned long long location, unsigned int length) except -1
    @cython.locals(at=Py_ssize_t, chunk=bytearray, p="unsigned char*", q="unsigned char*")
    cpdef int copy_slot(self, Py_ssize_t index, bytearray to, Py_ssize_t to_at) except -1
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, mid=Py_ssize_t, found="unsigned long long")
    cpdef Py_ssize_t find(self, unsigned long long position)


cdef void write_slot(unsigned char* p, Py_ssize_t at, unsigned long long position, unsigned long long location, unsigned int length, unsigned int body_size, unsigned int delivery_count) noexcept
