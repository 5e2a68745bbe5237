"""Places one order."""

from leveret.client import blocking
from leveret.client.topology import Queue

with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Queue("orders"))
    connection.producer().publish("one flat white", routing_key="orders")
    print("ordered: one flat white")
