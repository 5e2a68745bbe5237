"""A morning's orders, all at once."""

import asyncio

from leveret.client import connect
from leveret.client.topology import Queue

ORDERS = [
    {"drink": "espresso", "seconds": 0.2},
    {"drink": "pour-over", "seconds": 0.8},
    {"drink": "cappuccino", "seconds": 0.4},
    {"drink": "cold brew", "seconds": 0.2},
]


async def main():
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Queue("drinks"))
        await connection.producer(routing_key="drinks").publish_batch(ORDERS)
        print(f"{len(ORDERS)} drinks ordered")


asyncio.run(main())
