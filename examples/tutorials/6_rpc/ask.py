"""Asks the roaster for a price: ask.py sidamo 4."""

import asyncio
import sys

from leveret.client import DeadlineExceeded, RemoteError, Unroutable, connect


async def main():
    coffee, bags = sys.argv[1], int(sys.argv[2])
    async with connect("amqp://guest:guest@localhost:5672/") as connection, connection.rpc() as rpc:
        try:
            question = {"coffee": coffee, "bags": bags}
            price = await rpc.call(question, routing_key="quotes", type=float, deadline_s=5)
            print(f"{bags} bags of {coffee}: {price:.2f}")
        except RemoteError as error:
            print(f"the roaster says: {error.text}")
        except (DeadlineExceeded, Unroutable):
            print("the roaster is out")


asyncio.run(main())
