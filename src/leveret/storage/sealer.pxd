from leveret.core.log.records cimport seal_records
from leveret.runtime.disk_thread cimport Preparer


cdef class Sealer(Preparer):
    cdef void prepare(self, unsigned char* p, Py_ssize_t start, Py_ssize_t size, unsigned int salt) noexcept nogil
