cimport cython

from leveret.core.codec.octets cimport copy_octets

cdef Py_ssize_t PARTIAL_BYTES_MIN, PARTIAL_BYTES_KEPT


cdef class Carry:
    # The chunk being worked through
    cdef object chunk
    cdef const unsigned char* p
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    # The start of a frame whose rest has not come yet
    cdef bytearray partial
    cdef Py_ssize_t partial_size
    cdef readonly unsigned long long bytes_received
    cdef readonly unsigned long long chunks_received
    # See core.queue.contract.Queue
    cdef public object series
    cdef public unsigned long long sampled

    cdef int take_chunk(self, bytearray data, Py_ssize_t size) except -1
    @cython.locals(count=Py_ssize_t, room=Py_ssize_t, to="unsigned char*")
    cdef bint fill_partial(self, Py_ssize_t need) except -1
    @cython.locals(left=Py_ssize_t, to="unsigned char*")
    cdef int keep_partial(self) except -1
    cdef int let_go(self) except -1
    cpdef object detach(self)
