"""A morning's orders, all at once."""

from leveret.client import blocking
from leveret.client.topology import Queue

ORDERS = [
    {"drink": "espresso", "seconds": 0.2},
    {"drink": "pour-over", "seconds": 0.8},
    {"drink": "cappuccino", "seconds": 0.4},
    {"drink": "cold brew", "seconds": 0.2},
]

with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Queue("drinks"))
    connection.producer(routing_key="drinks").publish_batch(ORDERS)
    print(f"{len(ORDERS)} drinks ordered")
