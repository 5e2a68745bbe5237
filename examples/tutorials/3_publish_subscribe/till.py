"""Shows news to whoever stands at this till, from now until it is switched off."""

import asyncio

from leveret.client import connect
from leveret.client.topology import Binding, Exchange, Queue


async def main():
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Exchange("news", type="fanout"))
        mine = await connection.topology.declare_queue(Queue(exclusive=True))
        await connection.topology.declare(Binding("news", mine))
        async with connection.consumer(mine, auto_ack=True) as consumer:
            print("the till is open, Ctrl-C closes it")
            async for delivery in consumer:
                print(f"NEWS: {delivery.body.decode()}")


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
