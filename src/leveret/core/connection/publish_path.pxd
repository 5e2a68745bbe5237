cimport cython

from leveret.core.connection.confirms cimport Confirms
from leveret.core.codec.content cimport write_return
from leveret.core.queue.contract cimport ACCEPTED, REFUSED, Queue
from leveret.core.queue.dedup cimport digest_of, own_ttl_of
from leveret.core.log.journal cimport GROWN_BYTES_MAX, Journal
from leveret.core.codec.message cimport Message, make_message, shown
from leveret.core.observe.meter cimport PLACED_WORK, Meter
from leveret.core.codec.octets cimport read_u16, read_u64, same_octets, take
from leveret.core.queue.office cimport Office
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.codec.properties cimport Properties, scan_properties
from leveret.core.log.records cimport record_bytes
from leveret.core.connection.router cimport Exchange, Route, Router, Walk
from leveret.core.connection.trace cimport Trace
from leveret.core.connection.transaction cimport logged_bytes, refusing, too_much_work, work_of
from leveret.core.connection.unfinished cimport MESSAGE_BYTES, Unfinished
from leveret.core.codec.methods cimport PUBLISH

cdef unsigned int NO_ROUTE, INSPECTED_FLAGS, MESSAGE_ID_FLAG
cdef bytes NO_ROUTE_TEXT, REPLY_TO
cdef Py_ssize_t REMEMBERED_PROPERTIES_BYTES, WRITABLE_FEW, WRITABLE_MAX, PLAIN_DIGITS_MAX
cdef int MANDATORY_BIT, IMMEDIATE_BIT

cdef enum:
    IDLE = 0
    WANT_HEADER = 1
    WANT_BODY = 2
    # The message is whole, and where it goes is not known yet.
    ROUTING = 3


@cython.final
cdef class PublishPath(Confirms):
    cdef Office office
    cdef Router router
    cdef public object gate
    cdef public Trace trace
    cdef readonly int stage
    cdef public Py_ssize_t payload_max
    cdef public unsigned long long body_bytes_max
    # The publish being received
    cdef Route route
    cdef Properties properties
    cdef Properties inspected
    # The last properties that asked for a delay, what they become, and the delay
    cdef Properties timed
    cdef Properties timed_as
    cdef unsigned long long timed_ms
    cdef bint mandatory
    cdef unsigned long long body_size
    cdef unsigned long long body_have
    cdef bytearray parts
    cdef Unfinished unfinished
    cdef Walk walk
    cdef bytes routed_body
    cdef Properties routed_properties
    cdef unsigned long long routed_delay_ms
    # Where this user was found to be allowed to publish, and whether with any key
    cdef dict writable
    cdef Py_ssize_t writable_most
    # Transactions: None unless tx.select was called, else what commit will publish
    cdef readonly list pending
    cdef unsigned long long pending_bytes
    cdef readonly Py_ssize_t pending_work
    cdef public Py_ssize_t transaction_work_max
    cdef public bint met_known
    cdef readonly unsigned long long published_total
    cdef readonly unsigned long long returned_total
    cdef readonly unsigned long long refused_total
    cdef readonly unsigned long long routed_total
    cdef readonly unsigned long long dropped_total
    # The size that messages have at present, and how many of it are not in the office's histogram yet
    cdef Py_ssize_t usual_size
    cdef unsigned long long usual_count

    @cython.locals(x_size=Py_ssize_t, key_at=Py_ssize_t, bits_at=Py_ssize_t, size=Py_ssize_t, route=Route, known="const unsigned char*", bits=int)
    cdef int begin(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(route=Route, keyed=object)
    cdef Route find_route(self, bytes address)
    cdef int forget_deleted(self) except -1
    @cython.locals(known="const unsigned char*", raw=bytes)
    cdef int header(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(size="unsigned long long")
    cdef int body(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int drop_parts(self) except -1
    cdef int give_pending(self) except -1
    @cython.locals(size="unsigned long long")
    cpdef int offer(self, bytes address, Properties properties, bytes body) except -1
    @cython.locals(targets=tuple, properties=Properties, delay_ms="unsigned long long")
    cdef int complete(self, bytes body) except -1
    @cython.locals(targets=tuple, body=bytes, properties=Properties)
    cdef int go_on(self) except -1
    cdef int forget_walk(self) except -1
    @cython.locals(message=Message, size="unsigned long long", work=Py_ssize_t)
    cdef int publish(self, bytes body, Properties properties, unsigned long long delay_ms, tuple targets) except -1
    cpdef object flush_sizes(self)
    cdef unsigned long long delay(self, Properties properties) except? 0
    @cython.locals(digest=bytes, properties=Properties)
    cdef int place_once(self, Message message, Exchange exchange, tuple targets, bint mandatory) except -1
    @cython.locals(queue=Queue, i=Py_ssize_t, count=Py_ssize_t, gone=Py_ssize_t, refused=bint, known=bint, answer=int)
    cdef bint place(self, Message message, Exchange exchange, tuple targets, bint mandatory) except -1
    cdef int find_none(self, Message message, Exchange exchange, bint mandatory) except -1
    cdef bint log_takes(self, Message message, Py_ssize_t count) except -1
    @cython.locals(returned=Message)
    cdef int give_back(self, Message message) except -1
    cpdef object abandon(self)
    cpdef object start_transaction(self)
    cpdef object prepare(self)
    cpdef bint fits_log(self) except -1
    cpdef object commit_prepared(self)
    @cython.locals(message=Message, exchange=Exchange, targets=tuple, mandatory=bint)
    cpdef object commit(self)
    cpdef object forget_permissions(self)


@cython.locals(expiration=bytes)
cdef bint is_plain(Properties properties)
