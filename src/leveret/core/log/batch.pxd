cdef class Publisher:
    cdef unsigned long long awaited_batch
    cdef readonly unsigned long long accepted_seq

    cpdef int synced(self, unsigned long long batch, unsigned long long accepted_seq) except -1


cdef class NoteSource:
    cdef readonly unsigned long long id
    cdef public Py_ssize_t live
    cdef public long long live_bytes
    cdef bint touched
    cdef bint closed

    cpdef int write_notes(self) except -1


cdef class SideLog:
    cpdef object take_part(self)
