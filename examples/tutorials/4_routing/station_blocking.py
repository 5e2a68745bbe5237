"""Makes orders of some kinds: station_blocking.py hot cold."""

import sys

from leveret.client import blocking
from leveret.client.topology import Binding, Exchange, Queue

kinds = sys.argv[1:]
with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Exchange("stations", type="direct"))
    mine = connection.topology.declare_queue(Queue(exclusive=True))
    connection.topology.declare(*(Binding("stations", mine, kind) for kind in kinds))
    with connection.consumer(mine, auto_ack=True) as consumer:
        print(f"this station makes what is {' or '.join(kinds)}, Ctrl-C closes it")
        try:
            for delivery in consumer:
                print(f"{delivery.routing_key}: {delivery.body.decode()}")
        except KeyboardInterrupt:
            pass
