cimport cython

from leveret.core.codec.octets cimport copy_octets, read_u64, take, write_u64

cdef enum:
    PRODUCER = 1
    CONSUMER = 2
    BATCH = 3
    ITEM_BYTES = 10
    BATCH_ITEM_BYTES = 18

# How the batch goes on that a TRACK record is part of
cdef enum:
    ALONE = 0
    MORE = 1
    LOGGED = 2

cdef Py_ssize_t NAMES_MAX, GROUP_LOOK_MAX
cdef bytes GROUP_MARK
cdef unsigned long long FORGOTTEN


@cython.final
cdef class Tracking:
    cdef readonly dict producers
    cdef readonly dict consumers
    cdef dict changed_producers
    cdef dict changed_consumers

    cpdef bint is_changed(self)
    cpdef bint take_id(self, bytes producer, unsigned long long publishing_id) except -1
    cpdef object store_offset(self, bytes consumer, unsigned long long offset)
    cpdef bint forget_offset(self, bytes consumer) except -1
    cpdef dict producers_with(self, bytes prefix)
    cpdef Py_ssize_t changed_size(self) except -1
    cpdef Py_ssize_t whole_size(self) except -1
    cdef Py_ssize_t write_changed(self, unsigned char* p, Py_ssize_t at) except -1
    cdef Py_ssize_t write_whole(self, unsigned char* p, Py_ssize_t at) except -1
    @cython.locals(p="const unsigned char*", name_end=Py_ssize_t, name=bytes, items=dict, value="unsigned long long")
    cpdef int read(self, bytes data, Py_ssize_t at, Py_ssize_t end, bint whole) except -1
    @cython.locals(data=bytearray, p="unsigned char*")
    cpdef bytes encode(self)


@cython.locals(oldest=bytes)
cdef object forget_oldest(dict items, dict changed, bytes name)
@cython.locals(other=bytes, group=bytes, end=Py_ssize_t, looked=Py_ssize_t)
cdef bytes oldest_for(dict items, bytes name)
@cython.locals(size=Py_ssize_t, name=bytes)
cdef Py_ssize_t items_size(dict items) except -1
cdef Py_ssize_t write_batch(unsigned char* p, Py_ssize_t at, unsigned long long first_sequence, unsigned long long synced_sequence) except -1
@cython.locals(name=bytes, source="const unsigned char*")
cdef Py_ssize_t write_items(unsigned char* p, Py_ssize_t at, dict items, int kind) except -1
