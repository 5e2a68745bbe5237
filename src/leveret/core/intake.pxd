cimport cython

from leveret.core.content cimport write_confirm, write_return
from leveret.core.contract cimport ACCEPTED, REFUSED, Queue
from leveret.core.batch cimport Publisher
from leveret.core.dedup cimport digest_of, own_ttl_of
from leveret.core.journal cimport Journal
from leveret.core.message cimport Message, make_message, shown
from leveret.core.octets cimport read_u16, read_u64, same_octets, take
from leveret.core.office cimport Office
from leveret.core.outbox cimport Outbox
from leveret.core.properties cimport Properties, scan_properties
from leveret.core.router cimport Exchange, Route, Router

cdef unsigned int PUBLISH, ACK, NACK, NO_ROUTE, INSPECTED_FLAGS
cdef bytes NO_ROUTE_TEXT, REPLY_TO
cdef Py_ssize_t REMEMBERED_PROPERTIES_BYTES, WRITABLE_MAX, PLAIN_DIGITS_MAX
cdef int MANDATORY_BIT, IMMEDIATE_BIT

cdef enum:
    IDLE = 0
    WANT_HEADER = 1
    WANT_BODY = 2


@cython.final
cdef class Intake(Publisher):
    cdef Journal journal
    cdef Office office
    cdef unsigned int channel
    cdef Outbox outbox
    cdef Router router
    cdef public object gate
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
    # Where this user was found to be allowed to publish, and whether with any key
    cdef dict writable
    # Confirms
    cdef readonly bint confirming
    cdef bint owing
    cdef readonly unsigned long long publish_seq
    cdef readonly unsigned long long confirmed_seq
    # Transactions: None unless tx.select was called, else what commit will publish
    cdef readonly list pending
    cdef readonly unsigned long long published_total
    cdef readonly unsigned long long returned_total
    cdef readonly unsigned long long refused_total
    cdef readonly unsigned long long routed_total
    cdef readonly unsigned long long dropped_total
    cdef readonly unsigned long long confirmed_total
    # Refused ones that came after others which are not confirmed yet, by number
    cdef list nacked
    # The size that messages have at present, and how many of it are not in the office's histogram yet
    cdef Py_ssize_t usual_size
    cdef unsigned long long usual_count

    @cython.locals(x_size=Py_ssize_t, key_at=Py_ssize_t, bits_at=Py_ssize_t, size=Py_ssize_t, route=Route, known="const unsigned char*", bits=int)
    cdef int begin(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(route=Route, keyed=object)
    cdef Route find_route(self, bytes address)
    @cython.locals(known="const unsigned char*", raw=bytes)
    cdef int header(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(size="unsigned long long")
    cdef int body(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(size="unsigned long long")
    cpdef int offer(self, bytes address, Properties properties, bytes body) except -1
    @cython.locals(message=Message, targets=tuple, properties=Properties, delay_ms="unsigned long long")
    cdef int complete(self, bytes body) except -1
    cpdef object flush_sizes(self)
    cdef unsigned long long delay(self, Properties properties) except? 0
    @cython.locals(digest=bytes, properties=Properties)
    cdef int place_once(self, Message message, Exchange exchange, tuple targets, bint mandatory) except -1
    @cython.locals(queue=Queue, i=Py_ssize_t, count=Py_ssize_t, refused=bint, known=bint, answer=int)
    cdef bint place(self, Message message, Exchange exchange, tuple targets, bint mandatory) except -1
    @cython.locals(returned=Message)
    cdef int give_back(self, Message message) except -1
    cdef int confirm(self, Message message, bint refused, bint known) except -1
    @cython.locals(count="unsigned long long")
    cdef int acknowledge(self, unsigned long long upto_seq) except -1
    cpdef object flush_confirms(self)
    cpdef object abandon(self)
    cpdef object start_confirming(self)
    cpdef object start_transaction(self)
    @cython.locals(message=Message, exchange=Exchange, targets=tuple, mandatory=bint)
    cpdef object commit(self)
    cpdef object forget_permissions(self)


@cython.locals(expiration=bytes)
cdef bint is_plain(Properties properties)
