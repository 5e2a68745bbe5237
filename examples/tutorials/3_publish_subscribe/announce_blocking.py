"""Tells every till what is on or off the menu."""

import sys

from leveret.client import blocking
from leveret.client.topology import Exchange

news = " ".join(sys.argv[1:]) or "scones are sold out"
with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Exchange("news", type="fanout"))
    connection.producer("news", mandatory=False).publish(news)
    print(f"announced: {news}")
