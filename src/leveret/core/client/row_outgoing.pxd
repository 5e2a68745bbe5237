cimport cython

from leveret.core.codec.buffers cimport grow
from leveret.core.client.cells cimport NumberCells, OctetCells, PairCells
from leveret.core.client.outgoing cimport Outgoing, make_outgoing
from leveret.core.client.row_headers cimport RowHeaders
from leveret.core.codec.octets cimport copy_octets, same_octets, take, write_u16, write_u32, write_u64
from leveret.core.codec.properties cimport (
    APP_ID, CONTENT_ENCODING, CONTENT_TYPE, CORRELATION_ID, DELIVERY_MODE, EXPIRATION, HEADERS, MESSAGE_ID, PRIORITY,
    REPLY_TO, TIMESTAMP, TYPE, USER_ID,
)

cdef Py_ssize_t SHORT_MAX, SHORTS_BYTES
cdef long long MICROSECONDS, MOMENT_MAX


@cython.final
cdef class RowOutgoing:
    cdef bytes exchange
    cdef bytes routing_key
    cdef bytes content_type
    cdef int mode
    cdef int priority
    cdef unsigned int bits
    cdef bytes id_prefix
    cdef RowHeaders headers
    # The columns of the table at hand, None for those that it has not.
    cdef OctetCells bodies
    cdef OctetCells exchanges
    cdef OctetCells routing_keys
    cdef OctetCells content_types
    cdef OctetCells content_encodings
    cdef OctetCells correlation_ids
    cdef OctetCells reply_tos
    cdef OctetCells expirations
    cdef OctetCells message_ids
    cdef OctetCells types
    cdef OctetCells user_ids
    cdef OctetCells app_ids
    cdef NumberCells delivery_modes
    cdef NumberCells priorities
    cdef NumberCells moments
    cdef bytes address
    cdef bytearray scratch
    cdef unsigned char* p
    cdef Py_ssize_t at
    cdef unsigned int flags

    cpdef int rename(self, bytes producer, bytes id_prefix) except -1
    cpdef list make(self, dict columns, Py_ssize_t rows)
    @cython.locals(body=bytes, message_id=bytes, table=bytes, start=Py_ssize_t)
    cdef Outgoing make_row(self, Py_ssize_t row)
    @cython.locals(same="const unsigned char*")
    cdef bint find_address(self, Py_ssize_t row) except -1
    @cython.locals(start=Py_ssize_t, size=Py_ssize_t, source="const unsigned char*")
    cdef bint put_name(self, OctetCells cells, Py_ssize_t row, bytes default) except -1
    @cython.locals(start=Py_ssize_t, size=Py_ssize_t)
    cdef bint put_text(self, OctetCells cells, Py_ssize_t row, unsigned int bit) except -1
    @cython.locals(source="const unsigned char*", size=Py_ssize_t)
    cdef int put_table(self, bytes table) except -1
    @cython.locals(value="long long")
    cdef bint put_numbers(self, Py_ssize_t row) except -1
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, i=Py_ssize_t)
    cdef bint is_number(self, OctetCells cells, Py_ssize_t row) except -1
    @cython.locals(source="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, digits=Py_ssize_t, left=Py_ssize_t, i=Py_ssize_t)
    cdef bytes put_message_id(self, Py_ssize_t row)
    @cython.locals(value="long long")
    cdef bint put_moment(self, Py_ssize_t row) except -1
