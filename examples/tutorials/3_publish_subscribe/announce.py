"""Tells every till what is on or off the menu."""

import asyncio
import sys

from leveret.client import connect
from leveret.client.topology import Exchange


async def main():
    news = " ".join(sys.argv[1:]) or "scones are sold out"
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Exchange("news", type="fanout"))
        await connection.producer("news", mandatory=False).publish(news)
        print(f"announced: {news}")


asyncio.run(main())
