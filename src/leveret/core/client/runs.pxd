cimport cython

from leveret.core.client.channel_codec cimport ChannelCodec
from leveret.core.client.outgoing cimport CONFIRMED, Outgoing

@cython.locals(message=Outgoing, at=Py_ssize_t, size=Py_ssize_t)
cpdef Py_ssize_t publish_run(ChannelCodec codec, list messages, Py_ssize_t start, Py_ssize_t end, Py_ssize_t bytes_max, double due, object owner) except -1

@cython.locals(message=Outgoing, owner=object, last=object, count=Py_ssize_t, total=Py_ssize_t, size=Py_ssize_t)
cpdef tuple tally(list settled)

@cython.locals(message=Outgoing, at=Py_ssize_t, address=bytes, last=bytes)
cpdef Py_ssize_t find_untried(list messages, Py_ssize_t start, set known) except -1
