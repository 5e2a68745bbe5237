"""Properties that many messages share: all but the message id, ready to be written.

Most publishers send the same properties again and again; only the id differs. So the others are encoded once."""

import cython

from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.core.codec.properties import PROPERTY_BITS, parse_properties

if not cython.compiled:
    from leveret.core.codec.properties import MESSAGE_ID

# Where the message id stands among the values, see PROPERTY_BITS.
AFTER_ID = MESSAGE_ID - 1
SHORT_MAX = NAME_OCTETS_MAX
# The octet before a short string, by its size.
SIZES = tuple(bytes((size,)) for size in range(256))


class Template:
    """`raw` are encoded properties; a message id among them is left out."""

    def __init__(self, raw):
        properties = parse_properties(raw)
        fields = properties.fields()
        fields.pop("message_id", None)
        before = {name: value for name, value in fields.items() if PROPERTY_BITS[name] > MESSAGE_ID}
        after = {name: value for name, value in fields.items() if PROPERTY_BITS[name] <= AFTER_ID}
        empty = parse_properties(b"\x00\x00")
        self.head = empty.replace(before).raw[2:]
        self.tail = empty.replace(after).raw[2:]
        flags = 0
        for name in fields:
            flags |= PROPERTY_BITS[name]
        self.plain = flags.to_bytes(2, "big") + self.head + self.tail
        self.head = (flags | MESSAGE_ID).to_bytes(2, "big") + self.head

    def fill(self, message_id):
        """The properties of one message; an empty id is none."""
        size = len(message_id)
        if size == 0:
            return self.plain
        if size > SHORT_MAX:
            raise ValueError(f"a message id of {size} bytes is longer than {SHORT_MAX}")
        octet = SIZES[size]
        return self.head + octet + message_id + self.tail
