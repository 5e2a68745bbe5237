"""Shows the sales that fit a pattern: watch.py 'north.#'."""

import asyncio
import sys

from leveret.client import connect
from leveret.client.topology import Binding, Exchange, Queue


async def main():
    patterns = sys.argv[1:] or ["#"]
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Exchange("sales", type="topic"))
        mine = await connection.topology.declare_queue(Queue(exclusive=True))
        await connection.topology.declare(*(Binding("sales", mine, pattern) for pattern in patterns))
        async with connection.consumer(mine, auto_ack=True) as consumer:
            print(f"watching {' and '.join(patterns)}, Ctrl-C ends it")
            async for delivery in consumer:
                print(f"{delivery.routing_key}: {delivery.body.decode()}")


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
