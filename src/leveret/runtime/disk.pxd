# Blocking calls on files and event descriptors, inlined into the compiled disk thread; the interpreted twin is
# pure_disk.py. Plain libc symbols, so that strace and a preloaded library can stand in between. Each gives 0 or the
# error number.

from libc.errno cimport EINTR, errno
from libc.stdint cimport uint64_t
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from posix.stat cimport fstat, struct_stat
from posix.types cimport off_t
from posix.unistd cimport read, write

cdef extern from "unistd.h" nogil:
    ssize_t pwrite(int fd, const void* data, size_t size, off_t offset)
    ssize_t pread(int fd, void* data, size_t size, off_t offset)
    int fdatasync(int fd)

cdef extern from "fcntl.h" nogil:
    int fallocate(int fd, int mode, off_t offset, off_t size)

cdef extern from "errno.h":
    enum:
        EIO

cdef inline int write_at(int fd, unsigned char* p, Py_ssize_t start, Py_ssize_t size, long long offset) noexcept nogil:
    cdef Py_ssize_t done = 0
    cdef Py_ssize_t count
    while done < size:
        count = pwrite(fd, p + start + done, size - done, offset + done)
        if count < 0:
            if errno == EINTR:
                continue
            return errno
        if count == 0:
            return EIO
        done += count
    return 0

cdef inline int read_at(int fd, unsigned char* p, Py_ssize_t start, Py_ssize_t size, long long offset) noexcept nogil:
    cdef Py_ssize_t done = 0
    cdef Py_ssize_t count
    cdef int problem
    while done < size:
        count = pread(fd, p + start + done, size - done, offset + done)
        if count < 0 and errno == EINTR:
            continue
        if count <= 0:
            problem = errno if count < 0 else file_end_problem(fd, offset + done)
            memset(p + start + done, 0, size - done)
            return problem
        done += count
    return 0

cdef inline int file_end_problem(int fd, long long end) noexcept nogil:
    # 0 only if the file really ends here: then zeros in place of what should be there are proof that it is lost.
    cdef struct_stat found
    if fstat(fd, &found) != 0:
        return errno
    return EIO if found.st_size > end else 0

cdef inline int sync_data(int fd) noexcept nogil:
    # Never repeated after an error: the kernel may have dropped the pages, and a second call would succeed.
    return 0 if fdatasync(fd) == 0 else errno

cdef inline void reserve_at(int fd, Py_ssize_t size, long long offset) noexcept nogil:
    # A disk that has no room, or cannot do it, says so when something is written.
    fallocate(fd, 0, offset, size)

cdef inline unsigned long long now_us() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <unsigned long long>now.tv_sec * 1000000 + <unsigned long long>now.tv_nsec // 1000

cdef inline int await_event(int fd) noexcept nogil:
    cdef uint64_t value
    while read(fd, &value, 8) != 8:
        if errno != EINTR:
            return errno
    return 0

cdef inline void signal_event(int fd) noexcept nogil:
    cdef uint64_t value = 1
    while write(fd, &value, 8) != 8 and errno == EINTR:
        pass
