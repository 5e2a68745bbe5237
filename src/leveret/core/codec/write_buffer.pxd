cimport cython


from leveret.core.codec.octets cimport copy_octets

cdef Py_ssize_t CONGESTED_BYTES, CALM_BYTES, FLOODED_BYTES, FIRST_BUFFER_BYTES, SPARE_BYTES, SPARES_MAX


@cython.final
cdef class WriteBuffer:
    cdef bytearray data
    # Where to write next is p[end]. Valid until the next reserve.
    cdef unsigned char* p
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    cdef Py_ssize_t capacity
    # Sealed pieces that go before data[start:end]: bytes-like, oldest first.
    cdef list pieces
    cdef Py_ssize_t piece_bytes
    cdef list delivered
    cdef Py_ssize_t delivered_bytes
    cdef readonly bint congested
    cdef readonly bint dirty
    cdef list dirty_list
    cdef list spares
    cdef public object owner
    cdef public unsigned long long barrier
    cdef readonly unsigned long long bytes_sent
    cdef readonly unsigned long long sends_total

    @cython.locals(size=Py_ssize_t, capacity=Py_ssize_t, source="const unsigned char*", old=bytearray)
    cpdef int reserve(self, Py_ssize_t count) except -1
    cpdef int wrote(self, Py_ssize_t count) except -1
    cpdef int refer(self, bytes body, Py_ssize_t start, Py_ssize_t end, bint delivered=*) except -1
    @cython.locals(source="const unsigned char*")
    cpdef object write(self, bytes data)
    cpdef object pending(self)
    cpdef bint flooded(self)
    cpdef list views(self, Py_ssize_t pieces_max)
    @cython.locals(left=Py_ssize_t, size=Py_ssize_t, done=Py_ssize_t)
    cpdef object sent(self, Py_ssize_t count)
    cpdef int drop_buffer(self) except -1
    cpdef object calm_down(self)
    cpdef object discard(self)
