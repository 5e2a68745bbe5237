cimport cython

from leveret.core.queue.contract cimport ACCEPTED, Queue
from leveret.core.observe.histogram cimport Histogram
from leveret.core.log.journal cimport Journal
from leveret.core.codec.message cimport Message
from leveret.core.observe.meter cimport Meter

cdef Py_ssize_t LETTERS_MAX

# Why a message left its queue other than by a consumer's doing
cdef enum:
    REJECTED = 1
    EXPIRED = 2
    MAXLEN = 3
    DELIVERY_LIMIT = 4
    REASONS_MAX = 5


@cython.final
cdef class DeadLetter:
    cdef readonly Queue queue
    cdef readonly object rules
    cdef readonly Message message
    cdef readonly unsigned long long position
    cdef readonly int reason
    cdef readonly unsigned int deliveries


@cython.final
cdef class Office:
    cdef public unsigned long long now
    cdef readonly Journal journal
    cdef bint committing
    cdef public object wake
    cdef public object alarm
    cdef public object forget
    cdef readonly list letters
    cdef public object expansions
    cdef readonly dict unfinished
    cdef readonly Meter meter
    cdef readonly dict returning
    cdef readonly Histogram sizes
    cdef readonly Histogram stream_sizes
    cdef readonly Histogram waits
    cdef unsigned long long lost[REASONS_MAX]

    cdef bint is_full(self)
    cpdef int post(self, Queue queue, object rules, Message message, unsigned long long position, int reason, unsigned int deliveries) except -1
    cpdef int lose(self, int reason) except -1
    cpdef int go_on_later(self, object worker) except -1
    cpdef list take_letters(self)
    cpdef list take_unfinished(self)
    cpdef Py_ssize_t deliver(self, Message message, object targets) except -1
    @cython.locals(queue=Queue)
    cpdef Py_ssize_t deliver_again(self, Message message, object targets) except -1
    cpdef int deliver_later(self, Message message, Queue queue, unsigned long long delay_ms) except -1
    @cython.locals(queue=Queue, taken=Py_ssize_t)
    cdef Py_ssize_t put(self, Message message, object targets, bint again) except -1
    @cython.locals(letter=DeadLetter)
    cpdef object collect_located(self, unsigned long long number, dict found)
