"""The fixed numbers of AMQP 0-9-1: frame types, the frame's end, class ids, the protocol header.

Never holds a limit that could be set otherwise (those are in limits.py). Read by the codec, session/ and client/."""

from typing import Final

# What a client sends first, and what a server answers to any other version before it hangs up.
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
# Every header that is accepted, as by RabbitMQ, and the version that connection.start answers with. On the wire 0-9 is
# the same as 0-9-1, and 0-8 but for channel.open-ok; two headers are in use for 0-8.
AMQP_0_9: Final = (0, 9)
AMQP_0_8: Final = (8, 0)
PROTOCOL_VERSIONS: Final = {
    PROTOCOL_HEADER: AMQP_0_9,
    b"AMQP\x01\x01\x00\x09": AMQP_0_9,
    b"AMQP\x01\x01\x08\x00": AMQP_0_8,
    b"AMQP\x01\x01\x09\x01": AMQP_0_8,
}

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE

# Type, channel and size before the payload; with the end octet, what a frame costs beyond its payload.
FRAME_HEADER_BYTES: Final = 7
FRAME_OVERHEAD_BYTES: Final = 8

# The least frame_max that either side may ask for.
FRAME_MIN_SIZE: Final = 4096

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

CLASS_CONNECTION: Final = 10
CLASS_CHANNEL: Final = 20
CLASS_ACCESS: Final = 30
CLASS_EXCHANGE: Final = 40
CLASS_QUEUE: Final = 50
CLASS_BASIC: Final = 60
CLASS_CONFIRM: Final = 85
CLASS_TX: Final = 90
