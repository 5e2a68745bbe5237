cimport cython

from leveret.core.codec.carry cimport Carry
from leveret.core.codec.octets cimport read_u16, read_u32, take
from leveret.core.codec.write_buffer cimport WriteBuffer
from leveret.core.stream.publish_path cimport StreamPublisher, check_entries, write_errors
from leveret.core.connection.unfinished cimport Unfinished

cdef Py_ssize_t SIZE_BYTES, CONTENT_BYTES_MIN, PUBLISH_HEAD
cdef unsigned int PUBLISH, CLOSE, CLOSE_RESPONSE, PUBLISHER_DOES_NOT_EXIST
cdef bytes PUBLISHED


@cython.final
cdef class StreamConnection(Carry):
    cdef readonly WriteBuffer write_buffer
    cdef public unsigned int frame_max
    cdef readonly Unfinished unfinished
    cdef readonly Py_ssize_t counted
    cdef readonly dict publishers
    cdef public bint opened
    cdef public bint muted
    cdef public bint alarmed
    cdef public bint published
    cdef readonly unsigned long long frames_received
    cdef readonly unsigned long long unknown_publishers_total

    @cython.locals(data=bytearray)
    cpdef object feed(self, bytearray data, Py_ssize_t size)
    @cython.locals(size=Py_ssize_t, at=Py_ssize_t, event=object, p="const unsigned char*")
    cpdef object proceed(self)
    @cython.locals(size="unsigned int")
    cdef Py_ssize_t check_frame(self, const unsigned char* p, Py_ssize_t at) except -1
    cdef bint complete_partial(self) except -1
    @cython.locals(counted=Py_ssize_t)
    cdef int count_partial(self) except -1
    cpdef object stop(self)
    @cython.locals(key="unsigned int")
    cdef object frame(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(version="unsigned int", id="unsigned int", publisher=StreamPublisher)
    cdef object publish(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
