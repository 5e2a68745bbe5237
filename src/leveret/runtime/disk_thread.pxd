cimport cython

from libc.stdlib cimport free, realloc

from leveret.runtime.disk cimport await_event, now_us, read_at, reserve_at, signal_event, sync_data, write_at

cdef enum:
    PREPARE = 0
    WRITE = 1
    SYNC = 2
    READ = 3
    RESERVE = 4

cdef int FIRST_STEPS

cdef struct Step:
    int kind
    int fd
    unsigned int salt
    unsigned char* p
    Py_ssize_t start
    Py_ssize_t size
    long long offset
    # The error number of a read, 0 if its octets are those of the file
    int problem


cdef class Preparer:
    cdef void prepare(self, unsigned char* p, Py_ssize_t start, Py_ssize_t size, unsigned int salt) noexcept nogil


@cython.final
cdef class DiskThread:
    cdef Preparer preparer
    cdef readonly int done_fd
    cdef int wake_fd
    cdef Step* steps
    cdef int capacity
    cdef int count
    cdef list buffers
    cdef readonly bint busy
    cdef int error
    cdef readonly int failed_step
    # Microseconds that the last job's syncs took together, and how many these were
    cdef readonly unsigned long long sync_us
    cdef readonly int sync_count
    cdef readonly unsigned long long written_bytes_total
    cdef readonly unsigned long long writes_total
    cdef readonly unsigned long long read_bytes_total
    cdef readonly unsigned long long reads_total
    cdef bint stopping
    cdef readonly object thread

    @cython.locals(capacity=int, steps="Step*")
    cdef int make_room(self) except -1
    @cython.locals(p="unsigned char*", i=int)
    cdef int add_step(self, int kind, int fd, bytearray data, Py_ssize_t start, Py_ssize_t size, long long offset, unsigned int salt) except -1
    cdef void work(self) noexcept nogil
    @cython.locals(i=int, kind=int, problem=int, start="unsigned long long")
    cdef void perform(self) noexcept nogil
