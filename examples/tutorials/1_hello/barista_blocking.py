"""Takes orders as they come."""

from leveret.client import blocking
from leveret.client.topology import Queue

with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Queue("orders"))
    with connection.consumer("orders") as consumer:
        print("waiting for orders, Ctrl-C ends it")
        try:
            for delivery in consumer:
                print(f"making {delivery.body.decode()}")
                delivery.ack()
        except KeyboardInterrupt:
            pass
