cimport cython

from leveret.core.queue.office cimport DELIVERY_LIMIT, REJECTED

cdef Py_ssize_t ERAS_MAX

cdef enum:
    DROP_HEAD = 0
    REJECT = 1
    REJECT_AND_BURY = 2


@cython.final
cdef class Rules:
    cdef readonly long long ttl_ms
    cdef readonly long long length_max
    cdef readonly long long bytes_max
    cdef readonly int overflow
    cdef readonly long long delivery_limit
    cdef readonly bytes dead_letter_exchange
    cdef readonly bytes dead_letter_key
    cdef readonly tuple retry_delays
    cdef readonly bytes parking_lot
    cdef readonly bint buries
    cdef readonly bint retries
    cdef readonly bint plain
    cdef readonly tuple eras

    cpdef int succeed(self, Rules old, unsigned long long since) except -1
    cdef Py_ssize_t ttl_at(self, unsigned long long stamp) except? -1
    cdef bint expires_some(self)
    cpdef bint carries(self, int reason)
