cimport cython

from leveret.core.codec.content cimport write_deliver
from leveret.core.queue.contract cimport Entry, Queue, Subscriber
from leveret.core.connection.publish_path cimport PublishPath
from leveret.core.connection.late_tags cimport LateTags
from leveret.core.codec.message cimport Message
from leveret.core.observe.meter cimport SETTLED_WORK
from leveret.core.codec.octets cimport read_u64
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.connection.transaction cimport too_much_work
from leveret.core.connection.unacked cimport Unacked
from leveret.core.codec.methods cimport ACK, NACK, REJECT, TX_COMMIT

cdef int SETTLED, DISCARDED, REQUEUED
cdef Py_ssize_t SETTLED_A_STEP

cdef enum:
    OPEN = 0
    CLOSING = 1
    CLOSED = 2


@cython.final
cdef class Channel:
    cdef readonly unsigned int number
    cdef readonly int state
    cdef readonly WriteBuffer write_buffer
    cdef readonly PublishPath publish_path
    cdef readonly Unacked unacked
    cdef readonly dict consumers
    cdef list parked
    cdef public bint flowing
    cdef readonly unsigned long long last_tag
    cdef unsigned long long paged_upto
    # basic.qos global=true
    cdef public Py_ssize_t prefetch_count
    cdef public Py_ssize_t prefetch_bytes
    # Unacked deliveries to consumers, gets not counted
    cdef readonly Py_ssize_t held_count
    cdef readonly Py_ssize_t held_bytes
    # Acks that a transaction holds back: (entries, discard or requeue) in the order they came
    cdef readonly list pending
    cdef unsigned int settling
    cdef readonly unsigned long long settled_upto
    cdef int verdict
    cdef list returning
    # Control-plane object of this channel
    cdef public object channel_session
    cdef readonly unsigned long long delivered_total
    cdef readonly unsigned long long acked_total
    cdef readonly unsigned long long rejected_total
    cdef readonly unsigned long long handed_total
    cdef readonly unsigned long long got_total
    cdef readonly unsigned long long got_no_ack_total
    cdef readonly unsigned long long get_empty_total
    cdef readonly unsigned long long redelivered_total
    # See core.queue.contract.Queue
    cdef public object series
    cdef public unsigned long long sampled
    cdef readonly LateTags late_tags
    cdef readonly unsigned long long timed_out_total
    cdef readonly unsigned long long late_acks_total

    cpdef bint is_full(self)
    cpdef unsigned long long activity(self) except? 0
    cpdef int hold(self, Entry entry, Subscriber holder) except -1
    @cython.locals(freed=Py_ssize_t)
    cpdef Py_ssize_t page_out(self, Py_ssize_t bytes_max) except -1
    cdef int ack(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int nack(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int reject(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(entry=Entry, entries=list)
    cpdef int settle(self, unsigned long long tag, bint multiple, int verdict, unsigned int method) except -1
    @cython.locals(work_max=Py_ssize_t)
    cdef int settle_later(self, list entries, int verdict, unsigned int method) except -1
    cdef unsigned long long named(self, unsigned long long tag, bint multiple, unsigned int method) except? 0
    cdef int settle_upto(self, unsigned long long tag, int verdict) except -1
    @cython.locals(tag="unsigned long long", entries=list)
    cdef int go_on_settling(self) except -1
    @cython.locals(entry=Entry)
    cdef list take_upto(self, unsigned long long tag, Py_ssize_t count_max)
    @cython.locals(entry=Entry, queue=Queue, touched=list, i=Py_ssize_t)
    cpdef int judge(self, list entries, int verdict) except -1
    @cython.locals(entry=Entry, queue=Queue)
    cdef Queue refusing(self, list entries)
    @cython.locals(entry=Entry, holder=Subscriber, queue=Queue)
    cpdef Queue judge_one(self, Entry entry, int verdict)
    @cython.locals(woken=list)
    cpdef object unpark(self)
    @cython.locals(subscriber=Subscriber, parked=list)
    cdef int collect_able(self, list woken) except -1
    @cython.locals(entry=Entry)
    cpdef object time_out(self, list entries)
    @cython.locals(entries=list)
    cpdef object requeue_all(self)
    @cython.locals(entries=list)
    cpdef object go_on(self)
    @cython.locals(queue=Queue)
    cpdef object commit(self)
    cpdef object collect_located(self, unsigned long long number, dict found)


@cython.locals(entry=Entry, queue=Queue)
cdef int collect_located(list entries, unsigned long long number, dict found) except -1

cpdef object waited_of(Subscriber subscriber)

@cython.locals(subscriber=Subscriber, queue=Queue)
cdef int wake(list woken) except -1
