"""Sends an order to the station that can make it: order_blocking.py hot 'a cocoa'."""

import sys

from leveret.client import Unroutable, blocking
from leveret.client.topology import Exchange

station, what = sys.argv[1:]
with blocking.connect("amqp://guest:guest@localhost:5672/") as connection:
    connection.topology.declare(Exchange("stations", type="direct"))
    try:
        connection.producer("stations").publish(what, routing_key=station)
        print(f"ordered: {what}")
    except Unroutable:
        print(f"nobody makes anything {station} today")
