cimport cython

from leveret.core.client.columns cimport NumberColumn, OctetColumn
from leveret.core.client.delivery cimport Delivery
from leveret.core.codec.octets cimport read_u64, same_octets
from leveret.core.codec.properties cimport DELIVERY_MODE, HEADERS, PRIORITY, TIMESTAMP, Properties
from leveret.core.codec.tables cimport INT64, TEXT, _find_value_end, _read_value

cdef bytes OFFSET_NAME, STAMP_NAME
cdef long long MICROSECONDS
cdef unsigned long long SECONDS_MAX


@cython.final
cdef class Rows:
    cdef public bint by_tag
    cdef public bint stamped
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t octets
    cdef public Py_ssize_t taken_octets
    cdef readonly Delivery last
    cdef public unsigned long long next_offset
    cdef public unsigned long long gap_start
    cdef public unsigned long long gap_end
    cdef unsigned long long offset
    cdef unsigned long long stamp
    cdef bint has_stamp
    cdef bint has_others
    cdef public object keys
    cdef public object key_prefixes
    cdef OctetColumn body
    cdef OctetColumn exchange
    cdef OctetColumn routing_key
    cdef list texts
    cdef NumberColumn offsets
    cdef NumberColumn stamps
    cdef NumberColumn delivery_mode
    cdef NumberColumn priority
    cdef NumberColumn message_timestamp
    cdef OctetColumn header_ends
    cdef OctetColumn header_names
    cdef OctetColumn header_values
    cdef OctetColumn header_json
    cdef dict deaths
    cdef NumberColumn death_count
    cdef bint wants_deaths

    @cython.locals(delivery=Delivery, taken=Py_ssize_t)
    cpdef Py_ssize_t gather(self, object items, Py_ssize_t rows_max, Py_ssize_t bytes_max, unsigned long long stop) except -1
    @cython.locals(key=bytes)
    cdef bint wants(self, bytes address) except -1
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, value_at=Py_ssize_t, found=bint, properties=Properties)
    cdef int look(self, Delivery delivery) except -1
    @cython.locals(body=bytes, address=bytes, p="const unsigned char*", size=Py_ssize_t)
    cdef int add(self, Delivery delivery) except -1
    @cython.locals(p="const unsigned char*", flags="unsigned int", at=Py_ssize_t, number=int, bit="unsigned int", column=OctetColumn)
    cdef int add_properties(self, Properties properties) except -1
    cdef int put_number(self, NumberColumn column, bint present, long long value) except -1
    cdef int put_moment(self, bint present, unsigned long long seconds) except -1
    cdef int add_headers(self, Properties properties) except -1
    cdef bint is_ours(self, bytes name) except -1
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, value_at=Py_ssize_t, value_end=Py_ssize_t, name=bytes)
    cdef int add_header_fields(self, Properties properties) except -1
    cdef int note_header_end(self) except -1
    cdef int add_deaths(self, dict headers) except -1
    @cython.locals(column=object)
    cpdef tuple take(self)
