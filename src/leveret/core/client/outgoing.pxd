cimport cython

# What became of it. A returned one is confirmed as well, but went nowhere.
cdef enum:
    PENDING = 0
    CONFIRMED = 1
    REFUSED = 2
    RETURNED = 3


@cython.final
cdef class Outgoing:
    cdef readonly bytes address
    cdef readonly bytes raw
    cdef readonly bytes body
    cdef readonly bytes message_id
    cdef readonly unsigned int bits
    cdef public object owner
    cdef public unsigned long long tag
    cdef public unsigned int sent_count
    cdef int outcome
    cdef public unsigned int reply_code
    cdef public bytes reply_text
    cdef public double due
    cdef public unsigned long long index

    cpdef object send_again(self)
    cpdef str exchange(self)
    cpdef str routing_key(self)


@cython.locals(made=Outgoing)
cpdef Outgoing make_outgoing(bytes address, bytes raw, bytes body, bytes message_id, unsigned int bits)

@cython.locals(first=bytes, second=bytes, octets=bytes)
cpdef bytes make_address(str exchange, str routing_key)
