"""Tells of a sale, under a key of three words: sell.py north.coffee.beans 'a bag of Sidamo'."""

import asyncio
import sys

from leveret.client import connect
from leveret.client.topology import Exchange


async def main():
    key, what = sys.argv[1:]
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Exchange("sales", type="topic"))
        await connection.producer("sales", mandatory=False).publish(what, routing_key=key)
        print(f"sold: {what}")


asyncio.run(main())
