"""Answers what so many bags of a coffee cost."""

import asyncio

import msgspec

from leveret.client import connect
from leveret.client.topology import Queue

PRICES = {"sidamo": 12.5, "huila": 11.0}


class Inquiry(msgspec.Struct):
    coffee: str
    bags: int


async def quote(inquiry):
    print(f"asked for {inquiry.bags} of {inquiry.coffee}")
    if inquiry.coffee not in PRICES:
        raise LookupError(f"there is no {inquiry.coffee}")
    return PRICES[inquiry.coffee] * inquiry.bags


async def main():
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Queue("quotes"))
        async with connection.serve("quotes", quote, type=Inquiry) as server:
            print("the roaster is in, Ctrl-C ends it")
            await server.wait()


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
