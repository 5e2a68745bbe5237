cimport cython

cdef Py_ssize_t FIRST_INDEX_BYTES


@cython.final
cdef class Segment:
    cdef readonly unsigned long long id
    cdef readonly unsigned int salt
    cdef readonly object path
    cdef public Py_ssize_t end
    cdef public Py_ssize_t written
    cdef public Py_ssize_t live
    cdef public bint sealed
    cdef public bint paging
    cdef public set settles
    cdef readonly set noted_by
    cdef public unsigned long long copied_batch
    cdef public bint damaged
    cdef public Py_ssize_t placed
    cdef public unsigned long long first_sequence
    cdef public unsigned long long last_sequence
    cdef public bytearray index
    cdef public Py_ssize_t index_bytes

    cpdef object start_index(self)
    cpdef object copy_index(self)
    cdef int index_room(self, Py_ssize_t count) except -1
