cimport cython

from leveret.core.contract cimport ACCEPTED, EMPTY, KNOWN, LATER, REFUSED, Entry, Subscriber
from leveret.core.dedup cimport Window, digest_of, own_ttl_of
from leveret.core.delays cimport Delays
from leveret.core.levels cimport Levels
from leveret.core.load cimport Load
from leveret.core.message cimport Message
from leveret.core.octets cimport read_u64
from leveret.core.office cimport DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, Letter, Office
from leveret.core.plain_queue cimport PlainQueue
from leveret.core.ready cimport ReadyList
from leveret.core.rules cimport DROP_HEAD, REJECT_AND_BURY, Rules

cdef Py_ssize_t SLOT_BYTES, SWEPT_A_STEP
cdef unsigned long long DELAYED


cdef class ClassicQueue(PlainQueue):
    cdef readonly Office office
    cdef readonly Rules rules
    cdef Levels levels
    cdef bint expiring
    cdef readonly bint watchful
    cdef readonly unsigned long long alarm_at
    cdef dict doomed
    cdef readonly Delays delays
    cdef readonly unsigned long long expired_total
    cdef readonly unsigned long long dropped_total
    cdef readonly unsigned long long limited_total
    cdef readonly unsigned long long refused_total
    cdef readonly unsigned long long buried_total

    cpdef object set_rules(self, Rules rules)
    @cython.locals(digest=bytes, answer=int)
    cdef int publish_by_rules(self, Message message) except -1
    @cython.locals(rules=Rules)
    cdef bint would_overflow(self, Py_ssize_t size) except -1
    cdef int push_to_level(self, Message message) except -1
    cpdef int postpone(self, Message message) except -1
    @cython.locals(subscriber=Subscriber)
    cpdef int dispatch(self) except -1
    @cython.locals(answer=int)
    cpdef int get(self, Subscriber getter) except -1
    @cython.locals(rules=Rules)
    cdef bint is_over_limits(self) except -1
    cpdef Py_ssize_t ready_total(self) except -1
    cpdef long long ready_bytes_total(self) except? -1
    @cython.locals(left=Py_ssize_t, over=bint, reason=int)
    cpdef bint sweep(self) except -1
    cpdef object go_on(self)
    cpdef object ring(self)
    cdef bint must_know_head(self)
    @cython.locals(ttl_ms="long long")
    cdef unsigned long long expiry_of(self, Message message)
    @cython.locals(expiry="unsigned long long")
    cdef bint has_expired(self) except -1
    @cython.locals(entry=Entry)
    cdef int verdict(self) except -1
    @cython.locals(expiry="unsigned long long")
    cdef int set_alarm(self) except -1
    @cython.locals(entry=Entry)
    cdef int remove_head(self, int reason) except -1
    cdef int step_down(self) except -1
    @cython.locals(message=Message, durable=bint, position="unsigned long long")
    cdef int send_off(self, Entry entry, int reason) except -1
    @cython.locals(limit="long long")
    cpdef int requeue(self, Entry entry) except -1
    @cython.locals(level=ReadyList)
    cdef int put_back(self, Entry entry) except -1
    @cython.locals(level=ReadyList)
    cpdef object finish_load(self, Load load)
    @cython.locals(freed=Py_ssize_t, level=ReadyList)
    cpdef Py_ssize_t page_out(self, Py_ssize_t bytes_max) except -1
    @cython.locals(ready=Py_ssize_t, slots=bytearray)
    cpdef object restore(self, object book, bint all_seen)
    @cython.locals(level=ReadyList)
    cpdef bint has_load(self) except -1
    @cython.locals(level=ReadyList)
    cpdef int collect_located(self, unsigned long long number, dict found) except -1
    @cython.locals(level=ReadyList)
    cdef ReadyList level_of(self, unsigned long long position, unsigned long long location)
    @cython.locals(level=ReadyList)
    cpdef unsigned int move_stored(self, unsigned long long position, unsigned long long location, unsigned long long to, unsigned int length) except? 0xFFFFFFFF
    @cython.locals(level=ReadyList)
    cpdef object purge(self)
    @cython.locals(level=ReadyList)
    cpdef object close(self)
