cimport cython

from leveret.core.contract cimport Entry, make_entry
from leveret.core.message cimport Message
from leveret.core.ring cimport Ring


@cython.final
cdef class ReadyList:
    cdef Ring fresh
    cdef list returned
    cdef readonly unsigned long long next_position
    cdef readonly Py_ssize_t count
    cdef readonly long long bytes

    cpdef int push(self, Message message) except -1
    cpdef unsigned long long skip(self) except 0
    @cython.locals(message=Message)
    cpdef Message pop_message(self)
    @cython.locals(entry=Entry)
    cpdef Entry pop(self)
    cpdef int put_back(self, Entry entry) except -1
    cpdef object clear(self)
    cpdef list entries(self)


@cython.locals(at=Py_ssize_t, parent=Py_ssize_t, above=Entry)
cdef int heap_push(list heap, Entry entry) except -1

@cython.locals(last=Entry, smallest=Entry, left=Entry, right=Entry, at=Py_ssize_t, child=Py_ssize_t, size=Py_ssize_t)
cdef Entry heap_pop(list heap)
