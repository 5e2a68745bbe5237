cimport cython

from leveret.core.codec.octets cimport read_u16, read_u32, read_u64
from leveret.core.log.records cimport (
    ADDRESS_MASK, ENTRY, FLOOR, GROUP, GROUP_HEAD_BYTES, HEAD_BYTES, KIND_MASK, MESSAGE, MESSAGE_HEAD_BYTES, NOTE_BYTES, NOTES,
    PAGED, PLACED, SHARED, STATE, STATE_BYTES, TARGET_BYTES, TRACK, sealed_length,
)

cdef enum:
    RAW = 1
    SUBBATCH = 2
    SUBBATCH_EXTRA_BYTES = 5
    SUBBATCH_COUNT_MAX = 0xFFFF
    ITEM_BYTES = 10
    BATCH_ITEM = 3
    BATCH_NAME_BYTES = 8
    NESTING_MAX = 32
    BLOCK_BYTES = 40

cdef unsigned long long PLACE_MASK
cdef unsigned int HEADERS_BIT

@cython.locals(length=Py_ssize_t)
cdef Py_ssize_t record_length(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, unsigned int salt) noexcept nogil
@cython.locals(length=Py_ssize_t)
cdef Py_ssize_t message_length(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, unsigned int salt) noexcept nogil
@cython.locals(p="const unsigned char*")
cpdef Py_ssize_t checked_length(bytes data, Py_ssize_t at, Py_ssize_t end, unsigned int salt)
@cython.locals(p="const unsigned char*")
cpdef Py_ssize_t checked_message_length(bytes data, Py_ssize_t at, Py_ssize_t end, unsigned int salt)

@cython.locals(kind=int)
cdef bint fits(const unsigned char* p, Py_ssize_t at, Py_ssize_t length) noexcept nogil
@cython.locals(end=Py_ssize_t, count=Py_ssize_t, address=Py_ssize_t, properties=Py_ssize_t, body=Py_ssize_t)
cdef bint message_fits(const unsigned char* p, Py_ssize_t at, Py_ssize_t length) noexcept nogil
@cython.locals(end=Py_ssize_t, count=Py_ssize_t, address=Py_ssize_t, properties=Py_ssize_t, body=Py_ssize_t, flags=int)
cdef bint entry_fits(const unsigned char* p, Py_ssize_t at, Py_ssize_t length) noexcept nogil
@cython.locals(kind=int, count=Py_ssize_t)
cdef bint shared_fits(const unsigned char* p, Py_ssize_t at, Py_ssize_t length) noexcept nogil
@cython.locals(count=Py_ssize_t, i=Py_ssize_t, kind="unsigned int")
cdef bint notes_fit(const unsigned char* p, Py_ssize_t at, Py_ssize_t length) noexcept nogil
cdef bint items_fit(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(key_at=Py_ssize_t)
cdef bint address_fits(const unsigned char* p, Py_ssize_t at, Py_ssize_t size) noexcept nogil

@cython.locals(flags="unsigned int", bit="unsigned int", size=Py_ssize_t)
cdef bint properties_fit(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(size=Py_ssize_t)
cdef bint values_fit(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, bint named, int depth) noexcept nogil
@cython.locals(size=Py_ssize_t, kind=int)
cdef Py_ssize_t value_size(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(first=int, more=int, low=int, high=int, _=int)
cdef bint is_utf8(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil

@cython.locals(p="const unsigned char*", at=Py_ssize_t, size=Py_ssize_t, kind="unsigned int", least="unsigned int", place="unsigned long long", length="unsigned long long")
cpdef bint index_fits(bytes notes, Py_ssize_t first_place, unsigned long long end) except -1
@cython.locals(p="const unsigned char*", at=Py_ssize_t, size=Py_ssize_t, place="unsigned long long", last="unsigned long long")
cpdef bint blocks_fit(bytes blocks, Py_ssize_t first_place, unsigned long long end) except -1
