"""The Python twin of slot.pxd: the layout of a slot, 32 octets that stand for a message whose body is on disk."""

SLOT_BYTES = 32

# Where in a slot each field stands
POSITION = 0
LOCATION = 8
LENGTH = 16
BODY_SIZE = 20
DELIVERIES = 24
PRIORITY = 28
