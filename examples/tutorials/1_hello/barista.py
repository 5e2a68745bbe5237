"""Takes orders as they come."""

import asyncio

from leveret.client import connect
from leveret.client.topology import Queue


async def main():
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Queue("orders"))
        async with connection.consumer("orders") as consumer:
            print("waiting for orders, Ctrl-C ends it")
            async for delivery in consumer:
                print(f"making {delivery.body.decode()}")
                delivery.ack()


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
