cimport cython

from leveret.core.connection.channel cimport Channel
from leveret.core.queue.contract cimport Queue
from leveret.core.connection.publish_path cimport PublishPath
from leveret.core.queue.classic_queue cimport ClassicQueue
from leveret.core.stream.queue cimport StreamQueue


@cython.final
cdef class QueueTally:
    # What there is now
    cdef readonly long long queues
    cdef readonly long long consumers
    cdef readonly long long ready
    cdef readonly long long unacked
    cdef readonly long long delayed
    cdef readonly long long ready_bytes
    cdef readonly long long unacked_bytes
    # What happened so far
    cdef readonly unsigned long long publish
    cdef readonly unsigned long long deliver
    cdef readonly unsigned long long deliver_no_ack
    cdef readonly unsigned long long get
    cdef readonly unsigned long long get_no_ack
    cdef readonly unsigned long long get_empty
    cdef readonly unsigned long long redeliver
    cdef readonly unsigned long long ack
    cdef readonly unsigned long long requeued
    cdef readonly unsigned long long rejected
    cdef readonly unsigned long long purged
    cdef readonly unsigned long long withdrawn
    cdef readonly unsigned long long expired
    cdef readonly unsigned long long quarantined
    cdef readonly unsigned long long dropped
    cdef readonly unsigned long long limited
    cdef readonly unsigned long long refused
    cdef readonly unsigned long long buried
    cdef readonly unsigned long long quick
    cdef readonly unsigned long long streamed

    cpdef object add(self, Queue queue)
    cdef int add_classic(self, ClassicQueue queue) except -1
    cdef int add_stream(self, StreamQueue queue) except -1
    cpdef object merge(self, QueueTally other)


@cython.locals(tally=QueueTally)
cpdef tuple queue_values(Queue queue)

cpdef object add_queues(dict queues, QueueTally classic, QueueTally stream)


@cython.final
cdef class ChannelTally:
    # What there is now
    cdef readonly long long channels
    cdef readonly long long consumers
    cdef readonly long long publishers
    cdef readonly long long unacked
    # What happened so far
    cdef readonly unsigned long long publish
    cdef readonly unsigned long long publish_confirm
    cdef readonly unsigned long long confirm
    cdef readonly unsigned long long routed
    cdef readonly unsigned long long return_unroutable
    cdef readonly unsigned long long drop_unroutable
    cdef readonly unsigned long long refused
    cdef readonly unsigned long long deliver
    cdef readonly unsigned long long deliver_no_ack
    cdef readonly unsigned long long get
    cdef readonly unsigned long long get_no_ack
    cdef readonly unsigned long long get_empty
    cdef readonly unsigned long long redeliver
    cdef readonly unsigned long long ack
    cdef readonly unsigned long long rejected

    @cython.locals(publish_path=PublishPath)
    cpdef object add(self, Channel channel)
    cpdef object merge(self, ChannelTally other)


@cython.locals(tally=ChannelTally)
cpdef tuple channel_values(Channel channel)
