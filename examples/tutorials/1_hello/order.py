"""Places one order."""

import asyncio

from leveret.client import connect
from leveret.client.topology import Queue


async def main():
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Queue("orders"))
        await connection.producer().publish("one flat white", routing_key="orders")
        print("ordered: one flat white")


asyncio.run(main())
