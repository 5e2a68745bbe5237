cimport cython

from leveret.core.codec.octets cimport read_u32, take

cpdef bytes to_amqp10(bytes properties, bytes body, bytes exchange, bytes key)
cpdef bytes data_head(Py_ssize_t size)

@cython.locals(p="const unsigned char*", size=Py_ssize_t)
cpdef tuple from_amqp10(bytes data)
