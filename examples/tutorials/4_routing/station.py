"""Makes orders of some kinds: station.py hot cold."""

import asyncio
import sys

from leveret.client import connect
from leveret.client.topology import Binding, Exchange, Queue


async def main():
    kinds = sys.argv[1:]
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Exchange("stations", type="direct"))
        mine = await connection.topology.declare_queue(Queue(exclusive=True))
        await connection.topology.declare(*(Binding("stations", mine, kind) for kind in kinds))
        async with connection.consumer(mine, auto_ack=True) as consumer:
            print(f"this station makes what is {' or '.join(kinds)}, Ctrl-C closes it")
            async for delivery in consumer:
                print(f"{delivery.routing_key}: {delivery.body.decode()}")


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
