cimport cython

from leveret.core.queue.contract cimport ACCEPTED, EMPTY, GIVEN, LATER, Entry, Queue, Subscriber, make_entry
from leveret.core.log.journal cimport Journal
from leveret.core.log.load cimport Load
from leveret.core.codec.message cimport Message
from leveret.core.observe.meter cimport GIVEN_WORK
from leveret.core.queue.office cimport REJECTED, Office
from leveret.core.queue.ready cimport ReadyList
from leveret.core.queue.consumer_ring cimport ConsumerRing
from leveret.core.log.paging_context cimport PagingContext
from leveret.core.observe.tap cimport Tap

cdef Py_ssize_t GIVEN_A_STEP


cdef class PlainQueue(Queue):
    cdef readonly ReadyList ready
    cdef readonly bint has_rules
    cdef bint by_priority
    cdef PagingContext paging_context
    cdef list awaiting
    cdef ConsumerRing consumer_ring
    cdef readonly Office office
    cdef readonly bint paused
    cdef public Tap tap
    cdef readonly Py_ssize_t unacked_count
    cdef readonly long long unacked_bytes
    cdef readonly unsigned long long published_total
    cdef readonly unsigned long long delivered_total
    cdef readonly unsigned long long redelivered_total
    cdef readonly unsigned long long settled_total
    cdef readonly unsigned long long requeued_total
    cdef readonly unsigned long long discarded_total
    cdef readonly unsigned long long handed_total
    cdef readonly unsigned long long waited_total
    cdef readonly unsigned long long quick_total
    cdef readonly unsigned long long got_total
    cdef readonly unsigned long long got_no_ack_total
    cdef readonly unsigned long long get_empty_total
    cdef readonly unsigned long long withdrawn_total
    cdef readonly unsigned long long quarantined_total

    cpdef int publish(self, Message message) except -1
    @cython.final
    cdef bint owns(self, Message message)
    cpdef bint keeps(self, Message message) except -1
    cpdef object unacked_total(self)
    cdef int push(self, Message message) except -1
    cdef int publish_by_rules(self, Message message) except -1
    @cython.final
    @cython.locals(subscriber=Subscriber, position="unsigned long long")
    cdef int take_in(self, Message message) except -1
    @cython.locals(message=Message)
    cpdef int lend(self, Subscriber subscriber, Entry entry) except -1
    @cython.locals(entry=Entry)
    cpdef int give(self, Subscriber subscriber) except -1
    @cython.locals(entry=Entry, message=Message, seen=bint)
    cdef int give_for_good(self, Subscriber subscriber) except -1
    @cython.locals(subscriber=Subscriber, left=Py_ssize_t)
    cpdef int dispatch(self) except -1
    cdef int dispatch_by_rules(self) except -1
    cpdef int get(self, Subscriber getter) except -1
    @cython.locals(entry=Entry)
    cpdef int lend_quietly(self, Subscriber subscriber) except -1
    cpdef int fetch(self) except -1
    @cython.locals(load=Load)
    cpdef Load take_load(self, Journal journal)
    cpdef object finish_load(self, Load load)
    cdef object stop_awaiting(self)
    cpdef bint lacks_next(self) except -1
    cpdef int end(self, Entry entry) except -1
    cpdef int leave(self, Entry entry) except -1
    @cython.final
    cdef int note_wait(self, Message message) except -1
    @cython.final
    cdef int count_get(self, Subscriber getter) except -1
    @cython.locals(candidate=Subscriber)
    cpdef int activate_next(self) except -1
