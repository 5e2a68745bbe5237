"""Shows news to whoever stands at this till, from now until it is switched off."""

from leveret.client import blocking
from leveret.client.topology import Binding, Exchange, Queue

with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Exchange("news", type="fanout"))
    mine = connection.topology.declare_queue(Queue(exclusive=True))
    connection.topology.declare(Binding("news", mine))
    with connection.consumer(mine, auto_ack=True) as consumer:
        print("the till is open, Ctrl-C closes it")
        try:
            for delivery in consumer:
                print(f"NEWS: {delivery.body.decode()}")
        except KeyboardInterrupt:
            pass
