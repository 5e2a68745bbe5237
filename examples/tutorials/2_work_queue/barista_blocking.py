"""Makes one drink at a time, and finishes the one in hand before going home."""

import signal
import time

import msgspec

from leveret.client import blocking
from leveret.client.topology import Queue


class Order(msgspec.Struct):
    drink: str
    seconds: float


def make(order, delivery):
    time.sleep(order.seconds)
    if order.drink == "cappuccino" and not delivery.redelivered:
        print("dropped a cappuccino")
        raise RuntimeError("the floor is slippery")
    print(f"made: {order.drink}")


with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Queue("drinks"))
    with connection.consumer("drinks", type=Order, prefetch=1) as consumer:
        signal.signal(signal.SIGINT, lambda *_: consumer.stop_soon())
        print("waiting for orders, Ctrl-C ends it")
        consumer.run(make, concurrency=1)
