cimport cython

from leveret.core.client.cells cimport NumberCells, OctetCells, PairCells
from leveret.core.codec.octets cimport same_octets, take, write_u64
from leveret.core.codec.tables cimport TEXT, VOID

cdef Py_ssize_t NAME_MAX, KNOWN_MAX, TEXT_BYTES_MAX
cdef bytes NAME_FIELD, ID_FIELD
cdef frozenset RESERVED


@cython.final
cdef class RowHeaders:
    cdef public bytes producer
    cdef dict known
    cdef OctetCells producers
    cdef NumberCells publishing_ids
    cdef OctetCells texts
    cdef PairCells pairs
    cdef bytes last_fields
    cdef bytes last_name
    cdef bytearray last

    cpdef int take_columns(self, dict columns) except -1
    @cython.locals(name=bytes, publishing_id="long long", start=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, fields=bytes)
    cpdef bytes table(self, Py_ssize_t row)
    @cython.locals(text=bytes, fields=bytes, headers=dict)
    cdef bytes from_text(self, Py_ssize_t row, bytes name, long long publishing_id)
    @cython.locals(place=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, out=bytearray, name=bytes, seen=set, names=OctetCells, values=OctetCells)
    cdef bytes from_pairs(self, Py_ssize_t row)
    @cython.locals(p="unsigned char*", size=Py_ssize_t)
    cdef bytes stamp(self, bytes fields, bytes name, long long publishing_id)


cdef bytes size_of(object size)
