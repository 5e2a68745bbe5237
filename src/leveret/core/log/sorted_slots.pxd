cimport cython

from leveret.core.log.cold cimport write_slot
from leveret.core.codec.octets cimport copy_octets, read_u32, read_u64, write_u32, write_u64
from leveret.core.log.slot cimport BODY_SIZE, LENGTH, LOCATION, SLOT_BYTES

cdef Py_ssize_t BOUND_BYTES
cdef Py_ssize_t CHUNK_SHIFT, CHUNK_MASK, CHUNK_BYTES, HALF_BYTES, SMALL_BYTES


@cython.final
cdef class SortedSlots:
    cdef list chunks
    cdef bytearray bounds
    cdef bytearray slot
    cdef readonly Py_ssize_t count
    cdef readonly long long bytes_total

    cpdef object clear(self)
    @cython.locals(number=Py_ssize_t, at=Py_ssize_t, chunk=bytearray, upper=bytearray, p="unsigned char*", q="unsigned char*")
    cpdef bint add(self, unsigned long long position, unsigned long long location, unsigned int length, unsigned int body_size, unsigned int delivery_count) except -1
    @cython.locals(chunk=bytearray, p="unsigned char*")
    cpdef unsigned long long first_position(self) except? 0
    @cython.locals(chunk=bytearray, p="unsigned char*", q="unsigned char*")
    cpdef int copy_first(self, bytearray to, Py_ssize_t to_at) except -1
    cpdef int drop_first(self) except -1
    @cython.locals(number=Py_ssize_t, at=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cpdef Py_ssize_t find(self, unsigned long long position) except? -1
    @cython.locals(number=Py_ssize_t, at=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cpdef unsigned long long last_below(self, unsigned long long position) except? 0
    @cython.locals(found=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cpdef unsigned long long location_of(self, unsigned long long position) except? 0
    cpdef unsigned int length_of(self, unsigned long long position) except? 0
    cpdef unsigned int body_size_of(self, unsigned long long position) except? 0
    @cython.locals(found=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cdef unsigned int number_of(self, unsigned long long position, Py_ssize_t field) except? 0
    @cython.locals(found=Py_ssize_t, at=Py_ssize_t, chunk=bytearray, p="unsigned char*")
    cpdef bint move(self, unsigned long long position, unsigned long long location, unsigned int length) except -1
    @cython.locals(found=Py_ssize_t)
    cpdef bint remove(self, unsigned long long position) except -1
    @cython.locals(slots=bytearray, chunk=bytearray, number=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, left=Py_ssize_t)
    cpdef bytearray slots_from(self, unsigned long long position, Py_ssize_t limit)
    @cython.locals(p="const unsigned char*", low=Py_ssize_t, high=Py_ssize_t, mid=Py_ssize_t)
    cdef Py_ssize_t chunk_of(self, unsigned long long position) noexcept
    @cython.locals(at=Py_ssize_t, p="unsigned char*")
    cdef int insert_chunk(self, Py_ssize_t number, bytearray chunk, unsigned long long bound) except -1
    @cython.locals(at=Py_ssize_t)
    cdef int drop_chunk(self, Py_ssize_t number) except -1
    @cython.locals(chunk=bytearray, p="unsigned char*")
    cdef int cut_out(self, Py_ssize_t number, Py_ssize_t at) except -1
    @cython.locals(chunk=bytearray, other=bytearray)
    cdef int join_small(self, Py_ssize_t number) except -1


@cython.locals(low=Py_ssize_t, high=Py_ssize_t, mid=Py_ssize_t)
cdef Py_ssize_t seek(const unsigned char* p, Py_ssize_t size, unsigned long long position) noexcept
