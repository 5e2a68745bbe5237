"""A message as it lives in the broker: one object however many queues hold it.

Address, properties and body never change once made; what a queue adds (position, deliveries) is in its Entry. The body
may be away while the message waits on disk: then `location` says where its record is. Made by the publish path, by
dead-lettering and from storage."""

import cython

from leveret.core.codec.properties import Properties
from leveret.core.codec.tables import ORIGIN_HEADER

# What stays with a message and is not for clients.
HIDDEN_HEADERS = ("BCC", ORIGIN_HEADER)

# Properties up to this size do not count as memory of their message.
SHORT_PROPERTIES_BYTES = 1024


@cython.final
@cython.no_gc
@cython.freelist(2048)
@cython.cclass
class Message:
    """`address` is the exchange's name and the routing key as two short strings, just as basic.publish
    brought them and as basic.deliver sends them on. `location` is segment << 32 | offset, 0 if it has no record;
    `lone` is true if no other queue holds this object; `stamp` is when it arrived, or is to arrive if it is delayed, in
    milliseconds of the wall clock."""

    address: bytes
    properties: Properties
    body: "bytes | None"
    body_size: int
    location: int
    length: int
    lone: bool
    stamp: int

    __slots__ = ("address", "body", "body_size", "length", "location", "lone", "properties", "stamp")

    @property
    def exchange(self) -> bytes:
        return self.address[1 : 1 + self.address[0]]

    @property
    def routing_key(self) -> bytes:
        return self.address[2 + self.address[0] :]


def make_message(address, properties, body):
    message = Message.__new__(Message)
    message.address = address
    message.properties = properties
    message.body = body
    message.body_size = len(body)
    message.location = 0
    message.length = 0
    message.lone = False
    message.stamp = 0
    return message


def weight_of(message):
    """Octets that the message holds in memory, about: its body, and its properties unless they are short. Those are
    mostly the same object as the last message's."""
    properties_size = len(message.properties.raw)
    return message.body_size + (properties_size if properties_size > SHORT_PROPERTIES_BYTES else 0)


def stub_of(message, location, length):
    """The message without its body, which is on disk there. An object of its own: others may hold the first one."""
    stub = make_message(message.address, message.properties, b"")
    stub.body = None
    stub.body_size = message.body_size
    stub.location = location
    stub.length = length
    stub.lone = True
    stub.stamp = message.stamp
    return stub


def shown(message):
    """The message as clients may see it: without BCC, which stays with it so that a dead letter finds its way, and
    without the broker's own note of where it came from."""
    headers = {name: value for name, value in message.properties.headers().items() if name not in HIDDEN_HEADERS}
    return make_message(message.address, message.properties.replace({"headers": headers}), message.body)


def new_message(exchange: bytes, routing_key: bytes, properties: Properties, body: bytes) -> Message:
    """For callers outside the hot path."""
    address = bytes([len(exchange)]) + exchange + bytes([len(routing_key)]) + routing_key
    return make_message(address, properties, body)
