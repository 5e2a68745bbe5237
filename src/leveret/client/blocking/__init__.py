"""The client for programs without asyncio: the same names, and nothing to await.

    with connect("amqp://guest:guest@localhost/") as connection:
        connection.topology.declare(Queue("orders"))
        connection.producer().publish(b"two coffees, one tea", routing_key="orders")
        with connection.consumer("orders") as consumer:
            for delivery in consumer:
                delivery.ack()

A thread with a loop of its own runs the asyncio client; calls go there and wait, each with a deadline. All of it may be
used by many threads at once. After a fork the child connects anew."""

from leveret.client.blocking.channel import Channel, Delivery
from leveret.client.blocking.connection import Connection, connect
from leveret.client.blocking.connection_pool import ConnectionPool
from leveret.client.blocking.consumer import Batch, Consumer
from leveret.client.blocking.pool import Pool, PooledChannel
from leveret.client.blocking.producer import Confirmation, Producer
from leveret.client.blocking.rpc import Rpc, RpcServer
from leveret.client.blocking.stream import Stream, SuperStream
from leveret.client.blocking.topology import Topology

__all__ = [
    "Batch",
    "Channel",
    "Confirmation",
    "Connection",
    "ConnectionPool",
    "Consumer",
    "Delivery",
    "Pool",
    "PooledChannel",
    "Producer",
    "Rpc",
    "RpcServer",
    "Stream",
    "SuperStream",
    "Topology",
    "connect",
]
