"""Makes one drink at a time, and finishes the one in hand before going home."""

import asyncio
import signal

import msgspec

from leveret.client import connect
from leveret.client.topology import Queue


class Order(msgspec.Struct):
    drink: str
    seconds: float


async def make(order, delivery):
    await asyncio.sleep(order.seconds)
    if order.drink == "cappuccino" and not delivery.redelivered:
        print("dropped a cappuccino")
        raise RuntimeError("the floor is slippery")
    print(f"made: {order.drink}")


async def main():
    async with connect("amqp://guest:guest@localhost:5672/") as connection:
        await connection.topology.declare(Queue("drinks"))
        async with connection.consumer("drinks", type=Order, prefetch=1) as consumer:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, consumer.stop_soon)
            print("waiting for orders, Ctrl-C ends it")
            await consumer.run(make, concurrency=1)


asyncio.run(main())
