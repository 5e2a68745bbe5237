cimport cython

from leveret.core.queue.contract cimport Queue
from leveret.core.queue.dedup cimport digest_of
from leveret.core.codec.message cimport Message
from leveret.core.log.records cimport record_bytes
from leveret.core.connection.router cimport Exchange

cdef enum:
    WORK_OCTETS_SHIFT = 10

cdef object too_much_work(unsigned int method, Py_ssize_t work_max)

@cython.locals(work=Py_ssize_t, queue=Queue)
cdef Py_ssize_t work_of(Message message, tuple targets) except -1

@cython.locals(message=Message, exchange=Exchange, targets=tuple, queue=Queue, coming=dict, digest=bytes)
cdef object refusing(list pending, unsigned long long now)

@cython.locals(message=Message, targets=tuple, size=Py_ssize_t)
cdef Py_ssize_t logged_bytes(list pending) except -1
