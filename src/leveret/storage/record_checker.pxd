cimport cython

from leveret.core.codec.octets cimport write_u64
from leveret.core.log.record_check cimport record_length
from leveret.core.log.records cimport padded
from leveret.runtime.disk_thread cimport Preparer


cdef class RecordChecker(Preparer):
    @cython.locals(p="unsigned char*")
    cpdef int check(self, bytearray data, Py_ssize_t start, Py_ssize_t size, unsigned int salt) except -1
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t)
    cdef void prepare(self, unsigned char* p, Py_ssize_t start, Py_ssize_t size, unsigned int salt) noexcept nogil
