cimport cython

from leveret.core.queue.contract cimport Entry


cpdef unsigned long long position_of(Entry entry)

@cython.locals(at=Py_ssize_t, parent=Py_ssize_t, above=Entry)
cdef int heap_push(list heap, Entry entry) except -1

@cython.locals(last=Entry, smallest=Entry, left=Entry, right=Entry, at=Py_ssize_t, child=Py_ssize_t, size=Py_ssize_t)
cdef Entry heap_pop(list heap)
