cimport cython

from leveret.core.office cimport DELIVERY_LIMIT, REJECTED

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

    cpdef bint carries(self, int reason)
