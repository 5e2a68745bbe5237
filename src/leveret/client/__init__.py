"""A client for RabbitMQ, Leveret and every other AMQP 0-9-1 broker: asyncio first, with a blocking face.

    async with connect("amqp://guest:guest@localhost/") as connection:
        channel = await connection.channel()

Imports nothing of the broker, and installs without it."""

from leveret.client.batches import Batch
from leveret.client.channel import Channel
from leveret.client.connection import Connection, connect
from leveret.client.consumer import Consumer
from leveret.client.errors import (
    AlreadySettled,
    AuthenticationFailed,
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
from leveret.client.offset_store import OffsetStore, QueueOffsetStore, SqliteOffsetStore
from leveret.client.payload import Typed, Undecodable
from leveret.client.poison import OnError, Reject, Requeue, RetryLater, delivery_count
from leveret.client.recovery import State
from leveret.client.rpc import RemoteError, Reply, Rpc
from leveret.client.rpc_server import RpcServer
from leveret.client.stream import Stream, StreamMessage
from leveret.client.super_stream import SuperStream, declare_super_stream, partition_key
from leveret.core.client.delivery import Delivery

__all__ = [
    "AlreadySettled",
    "AuthenticationFailed",
    "Batch",
    "Channel",
    "ChannelClosed",
    "ClientClosed",
    "ClientError",
    "Connection",
    "ConnectionFailed",
    "ConnectionLost",
    "Consumer",
    "ConsumerCancelled",
    "DeadlineExceeded",
    "Delivery",
    "InvalidUrl",
    "OffsetStore",
    "OnError",
    "QueueOffsetStore",
    "Refused",
    "Reject",
    "RemoteError",
    "Reply",
    "Requeue",
    "RetryLater",
    "Rpc",
    "RpcServer",
    "SqliteOffsetStore",
    "StaleDelivery",
    "State",
    "Stream",
    "StreamMessage",
    "SuperStream",
    "Typed",
    "Undecodable",
    "Unroutable",
    "connect",
    "declare_super_stream",
    "delivery_count",
    "partition_key",
]
