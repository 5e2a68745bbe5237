cimport cython

from leveret.core.queue.dedup cimport DedupWindow
from leveret.core.log.queue_log cimport QueueLog
from leveret.core.codec.message cimport Message

cdef enum:
    ACCEPTED = 0
    REFUSED = 1
    KNOWN = 2

# What became of a get
cdef enum:
    EMPTY = 0
    GIVEN = 1
    LATER = 2

cdef class Subscriber
cdef class Queue


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class Entry:
    cdef readonly Message message
    cdef readonly Subscriber holder
    cdef readonly unsigned long long position
    cdef readonly unsigned long long tag
    cdef readonly unsigned int delivery_count
    cdef readonly bint seen


@cython.locals(entry=Entry)
cpdef Entry make_entry(Message message, unsigned long long position)


cdef class Subscriber:
    cdef readonly Queue queue
    cdef readonly bint no_ack
    cdef readonly long long priority
    cdef readonly bint active
    cdef bint waiting
    cdef unsigned int waited
    cdef bint metered
    cdef bint quiet
    cdef readonly Py_ssize_t unacked_count
    cdef readonly Py_ssize_t unacked_bytes

    cpdef bint can_take(self)
    cpdef int take(self, Entry entry) except -1
    cpdef int hand(self, Message message, bint redelivered) except -1
    cpdef int park(self) except -1
    cpdef object activity_changed(self, bint active)


cdef class Queue:
    cdef readonly bytes name
    cdef public object record
    cdef readonly QueueLog queue_log
    cdef public DedupWindow window
    cdef readonly bint single_active
    cdef readonly dict subscribers
    cdef public long long ack_timeout_ms
    cdef readonly bint ack_only
    cdef readonly bint deleted
    # What statistics know of it, None while nothing happens here; and what `activity` was when they last looked
    cdef public object series
    cdef public unsigned long long sampled

    cpdef int publish(self, Message message) except -1
    cpdef bint prepare(self, Message message, dict coming) except -1
    cpdef bint keeps(self, Message message) except -1
    cpdef int receive(self, Message message) except -1
    cpdef int receive_again(self, Message message) except -1
    cpdef int settle(self, Entry entry) except -1
    cpdef int requeue(self, Entry entry) except -1
    cpdef int give_back(self, Entry entry) except -1
    cpdef int withdraw(self, Entry entry) except -1
    cpdef int discard(self, Entry entry) except -1
    cpdef int get(self, Subscriber getter) except -1
    cpdef object await_load(self, object call)
    cpdef int wake(self, Subscriber subscriber) except -1
    cpdef int dispatch(self) except -1
    cpdef object subscribe(self, Subscriber subscriber)
    cpdef object unsubscribe(self, Subscriber subscriber)
    cpdef object ready_count(self)
    cpdef object unacked_total(self)
    cpdef unsigned long long activity(self) except? 0
    cpdef unsigned long long tail_position(self) except? 0
    cpdef object purge(self)
    cpdef Message dressed(self, Entry entry)
    cpdef int postpone(self, Message message) except -1
    cpdef int arrive(self, Message message) except -1
    cpdef int arrive_again(self, Message message) except -1
    cpdef int letter_sent(self, object letter) except -1
    cpdef object restore(self, object book, bint all_seen)
    cpdef bint has_load(self) except -1
    cpdef int collect_located(self, unsigned long long number, dict found) except -1
    cpdef bint find_stored(self, unsigned long long position, unsigned long long location) except -1
    cpdef unsigned int move_stored(self, unsigned long long position, unsigned long long location, unsigned long long to, unsigned int length) except? 0xFFFFFFFF
    cpdef Py_ssize_t page_entry(self, Entry entry) except -1
    cpdef object close(self)
