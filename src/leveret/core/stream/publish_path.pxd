cimport cython

from leveret.core.log.batch cimport Publisher
from leveret.core.codec.octets cimport copy_octets, read_u16, read_u32, read_u64, take, write_u16, write_u32, write_u64
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.stream.log cimport RAW, SUBBATCH
from leveret.core.stream.queue cimport StreamQueue

cdef unsigned int PUBLISH_CONFIRM, PUBLISH_ERROR, NO_FILTER, FILTER_BYTES_MAX, PRECONDITION_FAILED, GZIP_BITS
cdef Py_ssize_t EXPANDED_BYTES_MAX, GZIP_RATIO_MAX, GZIP_HEAD_BYTES
cdef Py_ssize_t IDS_MAX, FIRST_IDS_BYTES, KEPT_IDS_BYTES


@cython.final
cdef class StreamPublisher(Publisher):
    cdef readonly unsigned int id
    cdef readonly StreamQueue stream
    cdef readonly bytes reference
    cdef readonly WriteBuffer write_buffer
    cdef public unsigned int refusal
    cdef bytearray ids
    cdef Py_ssize_t ids_start
    cdef Py_ssize_t ids_end
    cdef readonly unsigned long long confirmed_seq
    cdef readonly bint closed
    cdef readonly unsigned long long published_total
    cdef readonly unsigned long long known_total
    cdef readonly unsigned long long refused_total
    cdef readonly unsigned long long confirmed_total

    @cython.locals(bloated=bint, size=Py_ssize_t, publishing_id="unsigned long long", filter_value=bytes, extra=bytes, body=bytes)
    cdef int publish(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, unsigned int version) except -1
    cdef bint is_new(self, unsigned long long publishing_id) except -1
    @cython.locals(size=Py_ssize_t, larger=bytearray, q="unsigned char*", source="const unsigned char*")
    cdef int remember(self, const unsigned char* p, Py_ssize_t at) except -1
    @cython.locals(out=WriteBuffer, part=Py_ssize_t, at=Py_ssize_t, q="unsigned char*", source="const unsigned char*")
    cdef int confirm(self, Py_ssize_t count) except -1
    cpdef object close(self)


@cython.locals(count=Py_ssize_t, size=Py_ssize_t, bloated=bint, _=Py_ssize_t)
cdef int check_entries(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, unsigned int version) except -1

@cython.locals(size=Py_ssize_t, expanded=Py_ssize_t)
cdef bint is_bloated(const unsigned char* p, Py_ssize_t at) noexcept

@cython.locals(to=Py_ssize_t, q="unsigned char*")
cdef int write_error(WriteBuffer out, unsigned int id, unsigned int code, unsigned long long publishing_id) except -1

@cython.locals(left=Py_ssize_t, part=Py_ssize_t, to=Py_ssize_t, q="unsigned char*", _=Py_ssize_t)
cdef int write_errors(WriteBuffer out, unsigned int id, unsigned int code, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, unsigned int version) except -1

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t content_at(const unsigned char* p, Py_ssize_t at, unsigned int version) noexcept

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t entry_end(const unsigned char* p, Py_ssize_t at, unsigned int version) noexcept
