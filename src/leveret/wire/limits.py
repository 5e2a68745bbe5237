"""How much of everything a peer may send or ask for: the defaults of what a node can set, and fixed bounds.

Never enforces anything; the core and session/ compare with these before they allocate."""

from typing import Final

from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.core.codec.tables import KEY_BYTES_MAX, TABLE_NESTING_MAX

__all__ = [
    "BODY_BYTES_MAX",
    "CHANNEL_MAX",
    "FRAME_MAX",
    "FRAME_MAX_BEFORE_AUTHENTICATION",
    "HANDSHAKE_DEADLINE_S",
    "HEARTBEAT_S",
    "KEY_BYTES_MAX",
    "METHOD_FIELDS_BYTES_MAX",
    "SASL_RESPONSE_BYTES_MAX",
    "SHORTSTR_BYTES_MAX",
    "STREAM_FRAME_MAX",
    "STREAM_FRAME_MAX_BEFORE_AUTHENTICATION",
    "STREAM_ITEMS_MAX",
    "TABLE_NESTING_MAX",
]

# What connection.tune offers. A client may ask for less.
FRAME_MAX: Final = 131072
CHANNEL_MAX: Final = 2047
HEARTBEAT_S: Final = 60

# Until the login has succeeded a stranger is writing: no more than the least frame that AMQP allows.
FRAME_MAX_BEFORE_AUTHENTICATION: Final = 4096

# From accept to connection.open.
HANDSHAKE_DEADLINE_S: Final = 10.0

# RabbitMQ 4's max_message_size.
BODY_BYTES_MAX: Final = 16 * 1024 * 1024

# A length of one octet: names, routing keys, reply texts.
SHORTSTR_BYTES_MAX: Final = NAME_OCTETS_MAX

# What a channel's method may have beside a table: a few short strings and numbers.
METHOD_FIELDS_BYTES_MAX: Final = 2048

# Enough for a token in the password's place; the frame's bound before authentication is as tight.
SASL_RESPONSE_BYTES_MAX: Final = 4096

# The stream protocol's: what a frame may have, before the login as well, and how many items a list in one. More than
# the 1 MiB that clients agree on, because some send longer frames than they have agreed on (rstream, 1.5 MB).
STREAM_FRAME_MAX: Final = 4 * 1024 * 1024
STREAM_FRAME_MAX_BEFORE_AUTHENTICATION: Final = 8192
STREAM_ITEMS_MAX: Final = 10000
