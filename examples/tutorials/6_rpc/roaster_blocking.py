"""Answers what so many bags of a coffee cost."""

import msgspec

from leveret.client import blocking
from leveret.client.topology import Queue

PRICES = {"sidamo": 12.5, "huila": 11.0}


class Inquiry(msgspec.Struct):
    coffee: str
    bags: int


def quote(inquiry):
    print(f"asked for {inquiry.bags} of {inquiry.coffee}")
    if inquiry.coffee not in PRICES:
        raise LookupError(f"there is no {inquiry.coffee}")
    return PRICES[inquiry.coffee] * inquiry.bags


with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Queue("quotes"))
    with connection.serve("quotes", quote, type=Inquiry) as server:
        print("the roaster is in, Ctrl-C ends it")
        try:
            server.wait()
        except KeyboardInterrupt:
            pass
