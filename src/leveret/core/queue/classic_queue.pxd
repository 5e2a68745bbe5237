cimport cython

from leveret.core.queue.contract cimport ACCEPTED, EMPTY, KNOWN, LATER, REFUSED, Entry, Subscriber, make_entry
from leveret.core.queue.dedup cimport DedupWindow, digest_of, own_ttl_of
from leveret.core.queue.delays cimport Delays
from leveret.core.queue.leveled_queue cimport LeveledQueue
from leveret.core.codec.message cimport Message, make_message
from leveret.core.codec.octets cimport read_u64
from leveret.core.queue.office cimport DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, DeadLetter, Office
from leveret.core.queue.plain_queue cimport GIVEN_A_STEP, PlainQueue
from leveret.core.codec.properties cimport Properties
from leveret.core.queue.rules cimport DROP_HEAD, REJECT_AND_BURY, Rules
from leveret.core.log.slot cimport SLOT_BYTES

cdef Py_ssize_t SWEPT_A_STEP
cdef unsigned long long DELAYED
cdef Rules NO_RULES


cdef class ClassicQueue(LeveledQueue):
    cdef readonly Rules rules
    cdef bint expiring
    cdef readonly unsigned long long alarm_at
    cdef dict rejected_on_disk
    cdef readonly Delays delays
    cdef readonly unsigned long long expired_total
    cdef readonly unsigned long long dropped_total
    cdef readonly unsigned long long limited_total
    cdef readonly unsigned long long refused_total
    cdef readonly unsigned long long buried_total

    @cython.locals(delayed="unsigned long long", left="unsigned long long")
    cpdef unsigned long long activity(self) except? 0
    cpdef object set_rules(self, Rules rules, unsigned long long since=*)
    @cython.locals(digest=bytes, answer=int, properties=Properties)
    cdef int publish_by_rules(self, Message message) except -1
    @cython.locals(digest=bytes, count=Py_ssize_t, size=Py_ssize_t)
    cpdef bint prepare(self, Message message, dict coming) except -1
    @cython.locals(octets="long long")
    cdef bint is_full_of_delayed(self, Py_ssize_t size) except -1
    @cython.locals(entry=Entry)
    cdef int turn_away(self, Message message) except -1
    @cython.locals(rules=Rules, over=bint)
    cdef bint would_overflow(self, Py_ssize_t others, Py_ssize_t size) except -1
    @cython.locals(entry=Entry)
    cpdef int arrive_again(self, Message message) except -1
    cpdef int postpone(self, Message message) except -1
    @cython.locals(subscriber=Subscriber, left=Py_ssize_t)
    cdef int dispatch_by_rules(self) except -1
    @cython.locals(answer=int)
    cpdef int get(self, Subscriber getter) except -1
    @cython.locals(rules=Rules)
    cdef bint is_over_limits(self) except -1
    @cython.locals(left=Py_ssize_t, over=bint, reason=int)
    cpdef bint sweep(self) except -1
    @cython.locals(ruled=bint)
    cdef int calm_down(self) except -1
    cpdef object go_on(self)
    cpdef object ring(self)
    @cython.locals(limited=bint)
    cdef bint must_know_head(self)
    @cython.locals(ttl_ms="long long", of_queue="long long")
    cdef unsigned long long expiry_of(self, Message message) except? 0
    @cython.locals(expiry="unsigned long long")
    cdef bint has_expired(self) except -1
    @cython.locals(entry=Entry)
    cdef int sentence(self) except -1
    @cython.locals(reason=int)
    cdef int verdict(self) except -1
    @cython.locals(expiry="unsigned long long")
    cdef int set_alarm(self) except -1
    @cython.locals(entry=Entry)
    cdef int remove_head(self, int reason) except -1
    @cython.locals(message=Message, durable=bint, position="unsigned long long")
    cdef int send_off(self, Entry entry, int reason) except -1
    @cython.locals(message=Message)
    cpdef Message dressed(self, Entry entry)
    @cython.locals(limit="long long")
    cpdef int requeue(self, Entry entry) except -1
    @cython.locals(freed=Py_ssize_t)
    cpdef Py_ssize_t page_out(self, Py_ssize_t bytes_max) except -1
    @cython.locals(ready=Py_ssize_t)
    cpdef object restore(self, object book, bint all_seen)
