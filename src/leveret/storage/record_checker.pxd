cimport cython

from leveret.core.octets cimport write_u64
from leveret.core.records cimport padded, record_length
from leveret.runtime.disk_thread cimport Preparer


cdef class RecordChecker(Preparer):
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t)
    cdef void prepare(self, unsigned char* p, Py_ssize_t start, Py_ssize_t size, unsigned int salt) noexcept nogil
