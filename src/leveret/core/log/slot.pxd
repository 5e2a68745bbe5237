# A slot: 32 octets that stand for a message whose body is on disk. Big-endian, and never written to disk itself.
# The Python twin is slot_layout.py; tests/unit/core/test_twins.py compares them.

cdef enum:
    SLOT_BYTES = 32

# Where in a slot each field stands
cdef enum:
    POSITION = 0
    LOCATION = 8
    LENGTH = 16
    BODY_SIZE = 20
    DELIVERIES = 24
    PRIORITY = 28
