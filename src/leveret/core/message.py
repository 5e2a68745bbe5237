"""A message as it lives in the broker: one object however many queues hold it.

Never changes once made; what a queue adds (position, deliveries) is in its Entry. Made by the intake,
by dead-lettering and by storage."""

import cython

from leveret.core.properties import Properties


@cython.final
@cython.no_gc
@cython.freelist(2048)
@cython.cclass
class Message:
    """`address` is the exchange's name and the routing key as two short strings, just as basic.publish
    brought them and as basic.deliver sends them on."""

    __slots__ = ("address", "body", "properties")

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
    return message


def new_message(exchange: bytes, routing_key: bytes, properties: Properties, body: bytes) -> Message:
    """For callers outside the hot path."""
    address = bytes([len(exchange)]) + exchange + bytes([len(routing_key)]) + routing_key
    return make_message(address, properties, body)
