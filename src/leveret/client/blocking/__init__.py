"""The client for programs without asyncio: the same names, and nothing to await.

    with connect("amqp://guest:guest@localhost/") as connection:
        channel = connection.channel()

A thread with a loop of its own runs the asyncio client; calls go there and wait, each with a deadline. All of it may be
used by many threads at once."""

from leveret.client.blocking.channel import Channel, Delivery
from leveret.client.blocking.connection import Connection, connect

__all__ = ["Channel", "Connection", "Delivery", "connect"]
