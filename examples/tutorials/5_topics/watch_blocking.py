"""Shows the sales that fit a pattern: watch_blocking.py 'north.#'."""

import sys

from leveret.client import blocking
from leveret.client.topology import Binding, Exchange, Queue

patterns = sys.argv[1:] or ["#"]
with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Exchange("sales", type="topic"))
    mine = connection.topology.declare_queue(Queue(exclusive=True))
    connection.topology.declare(*(Binding("sales", mine, pattern) for pattern in patterns))
    with connection.consumer(mine, auto_ack=True) as consumer:
        print(f"watching {' and '.join(patterns)}, Ctrl-C ends it")
        try:
            for delivery in consumer:
                print(f"{delivery.routing_key}: {delivery.body.decode()}")
        except KeyboardInterrupt:
            pass
