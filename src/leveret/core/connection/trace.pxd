cimport cython

from leveret.core.queue.contract cimport Queue
from leveret.core.codec.message cimport Message
from leveret.core.queue.office cimport Office


@cython.final
cdef class Notes:
    cdef Office office
    cdef object worker
    cdef Py_ssize_t count_max
    cdef Py_ssize_t bytes_max
    cdef readonly object waiting
    cdef readonly Py_ssize_t waiting_bytes
    cdef readonly unsigned long long noted_total
    cdef readonly unsigned long long missed_total

    cdef int add(self, tuple note, Py_ssize_t size) except -1
    cpdef tuple take(self)


@cython.final
cdef class Trace:
    cdef Notes notes
    cdef readonly object origin

    @cython.locals(body=bytes)
    cpdef int published(self, Message message, tuple targets) except -1
    cpdef int delivered(self, Queue queue, Message message, bytes body, bint redelivered) except -1
