cimport cython

from leveret.core.codec.crc32c cimport crc32c
from leveret.core.codec.octets cimport read_u32, read_u64, write_u32
from leveret.core.log.record_check cimport fits
from leveret.core.log.records cimport HEAD_BYTES, padded

cdef enum:
    POWERS_MAX = 32
    TABLES_SIZE = 32768

cdef Py_ssize_t STEP_BYTES, SHORT_BYTES
cdef unsigned int POLYNOMIAL


@cython.final
cdef class RecordSearch:
    cdef readonly bytes data
    cdef unsigned int salt
    cdef bytearray sums
    cdef Py_ssize_t base
    cdef Py_ssize_t known
    cdef unsigned int tables[TABLES_SIZE]
    cdef int powers
    cdef readonly unsigned long long checksummed

    @cython.locals(p="const unsigned char*", end=Py_ssize_t, length=Py_ssize_t)
    cpdef Py_ssize_t find(self, Py_ssize_t at, unsigned long long sequence_min) except -2
    @cython.locals(p="const unsigned char*", end=Py_ssize_t, length=Py_ssize_t)
    cpdef Py_ssize_t length_at(self, Py_ssize_t at) except -1
    @cython.locals(p="const unsigned char*", before="unsigned int")
    cpdef unsigned int checksum(self, Py_ssize_t start, Py_ssize_t end) except? 0
    @cython.locals(p="const unsigned char*", q="unsigned char*", index=Py_ssize_t, at=Py_ssize_t)
    cdef unsigned int prefix(self, Py_ssize_t place) except? 0
    @cython.locals(power=int)
    cdef unsigned int behind_zeros(self, unsigned int crc, Py_ssize_t count) except? 0
    @cython.locals(at=Py_ssize_t)
    cdef unsigned int moved(self, unsigned int crc, int power) noexcept
    @cython.locals(at=Py_ssize_t, bit=int, value="unsigned int", table=Py_ssize_t, lowest=int, low=int)
    cdef int add_power(self) except -1
