cdef class Publisher:
    cdef unsigned long long awaited_batch
    cdef readonly unsigned long long accepted_seq

    cpdef int synced(self, unsigned long long batch, unsigned long long accepted_seq) except -1
