# C types of tables.py. Positions are offsets from `p`; `end` is the first byte that does not belong to the value.

cimport cython
from leveret.core.codec.octets cimport read_u16, read_u32, read_u64, same_octets, take

# The letters that name a field's type on the wire.
cdef enum:
    BOOLEAN = 116  # t
    INT8 = 98  # b
    UINT8 = 66  # B
    INT16 = 115  # s
    UINT16 = 117  # u
    INT32 = 73  # I
    UINT32 = 105  # i
    INT64 = 108  # l
    INT64_ALIAS = 76  # L
    FLOAT32 = 102  # f
    FLOAT64 = 100  # d
    DECIMAL = 68  # D
    TEXT = 83  # S
    ARRAY = 65  # A
    TIMESTAMP = 84  # T
    TABLE = 70  # F
    VOID = 86  # V
    BLOB = 120  # x

cdef enum:
    NESTING_MAX = 32

# Headers that the broker itself heeds, as bits
cdef enum:
    NOTED_COPIES = 1
    NOTED_BLIND = 2
    NOTED_DELAY = 4
    NOTED_STREAM = 8
    NOTED_DEATH = 16

cdef inline long long signed64(unsigned long long value) noexcept:
    return <long long> value

cdef bytes ORIGIN_OCTETS
cdef list INT8_VALUES
cdef list UINT8_VALUES

# `at` is the first byte of the first field, that is, just past the table's 4-byte length; `end` is `at` plus that
# length, and the caller has checked that the buffer reaches so far. The outermost table has depth 0.
@cython.locals(key_end=Py_ssize_t, value_end=Py_ssize_t, table=dict)
cdef dict read_table(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int depth)

# The same walk without building anything: raises what read_table would raise. The bits of the noted keys.
@cython.locals(key_end=Py_ssize_t, value_end=Py_ssize_t, noted=int)
cdef int check_table(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int depth) except -1

@cython.locals(value_end=Py_ssize_t, items=list)
cdef list _read_array(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int depth)

@cython.locals(value_end=Py_ssize_t)
cdef bint _check_array(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int depth) except -1

cdef Py_ssize_t _find_key_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1

@cython.locals(tag=cython.uchar, size=Py_ssize_t)
cdef Py_ssize_t _find_value_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1

@cython.locals(tag=cython.uchar, number=cython.longlong)
cdef object _read_value(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int depth)

@cython.locals(tag=cython.uchar, number=cython.longlong)
cdef object _read_rare_value(const unsigned char* p, Py_ssize_t at, Py_ssize_t end)

@cython.locals(tag=cython.uchar)
cdef bint _check_value(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int depth) except -1

cdef str _read_key(const unsigned char* p, Py_ssize_t at, Py_ssize_t end)

@cython.locals(i=Py_ssize_t)
cdef bint _check_key(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1

cdef bint _check_depth(Py_ssize_t at, int depth) except -1

@cython.locals(own="const unsigned char*")
cdef int _noted(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept

# Appends the table's length and fields to `out`.
cdef bint write_table(bytearray out, dict table, int depth) except -1

cdef bint _write_value(bytearray out, object value, int depth) except -1

cdef bint _write_number(bytearray out, object value) except -1

cdef bint _write_other(bytearray out, object value, int depth) except -1

cdef bint _write_decimal(bytearray out, object value) except -1

cdef bint _write_long(bytearray out, int tag, bytes octets) except -1

cdef bint _append_u32(bytearray out, unsigned int number) except -1

@cython.locals(size=Py_ssize_t)
cdef bint _fill_length(bytearray out, Py_ssize_t start) except -1
