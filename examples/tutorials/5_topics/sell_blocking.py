"""Tells of a sale, under a key of three words: sell_blocking.py north.coffee.beans 'a bag of Sidamo'."""

import sys

from leveret.client import blocking
from leveret.client.topology import Exchange

key, what = sys.argv[1:]
with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Exchange("sales", type="topic"))
    connection.producer("sales", mandatory=False).publish(what, routing_key=key)
    print(f"sold: {what}")
