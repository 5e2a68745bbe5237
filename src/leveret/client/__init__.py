"""A client for RabbitMQ, Leveret and every other AMQP 0-9-1 broker: asyncio first, with a blocking face.

    async with connect("amqp://guest:guest@localhost/") as connection:
        channel = await connection.channel()

Imports nothing of the broker, and installs without it."""

from leveret.client.batches import Batch
from leveret.client.channel import Channel
from leveret.client.confirmation import Confirmation
from leveret.client.connection import Connection, connect
from leveret.client.consumer import Consumer
from leveret.client.errors import (
    AlreadySettled,
    AuthenticationFailed,
    BatchFailed,
    ChannelClosed,
    ClientClosed,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    ConsumerCancelled,
    DeadlineExceeded,
    InvalidUrl,
    Refused,
    StaleDelivery,
    Unroutable,
)
from leveret.client.message import Message
from leveret.client.payload import Typed, Undecodable
from leveret.client.poison import OnError, Reject, Requeue, RetryLater, delivery_count
from leveret.client.pool import Pool, PoolStatistics
from leveret.client.pooled_channel import PooledChannel
from leveret.client.producer import Producer
from leveret.client.recovery import State
from leveret.core.client.delivery import Delivery

__all__ = [
    "AlreadySettled",
    "AuthenticationFailed",
    "Batch",
    "BatchFailed",
    "Channel",
    "ChannelClosed",
    "ClientClosed",
    "ClientError",
    "Confirmation",
    "Connection",
    "ConnectionFailed",
    "ConnectionLost",
    "Consumer",
    "ConsumerCancelled",
    "DeadlineExceeded",
    "Delivery",
    "InvalidUrl",
    "Message",
    "OnError",
    "Pool",
    "PoolStatistics",
    "PooledChannel",
    "Producer",
    "Refused",
    "Reject",
    "Requeue",
    "RetryLater",
    "StaleDelivery",
    "State",
    "Typed",
    "Undecodable",
    "Unroutable",
    "connect",
    "delivery_count",
]
