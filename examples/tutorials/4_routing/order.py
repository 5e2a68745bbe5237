"""Sends an order to the station that can make it: order.py hot 'a cocoa'."""

import asyncio
import sys

from leveret.client import Unroutable, connect
from leveret.client.topology import Exchange


async def main():
    station, what = sys.argv[1:]
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Exchange("stations", type="direct"))
        try:
            await connection.producer("stations").publish(what, routing_key=station)
            print(f"ordered: {what}")
        except Unroutable:
            print(f"nobody makes anything {station} today")


asyncio.run(main())
