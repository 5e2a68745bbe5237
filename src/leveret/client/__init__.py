"""A client for RabbitMQ, Leveret and every other AMQP 0-9-1 broker: asyncio first, with a blocking face.

    async with connect("amqp://guest:guest@localhost/") as connection:
        channel = await connection.channel()

Imports nothing of the broker, and installs without it."""

from leveret.client.batches import Batch
from leveret.client.channel import Channel
from leveret.client.confirmation import Confirmation
from leveret.client.connection import Connection, connect
from leveret.client.connection_pool import ConnectionPool
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
    NoPartitions,
    Refused,
    StaleDelivery,
    Unroutable,
)
from leveret.client.message import Message
from leveret.client.metrics import ConnectionMetrics, PartMetrics, PrometheusCollector
from leveret.client.offset_store import OffsetStore, QueueOffsetStore, SqliteOffsetStore
from leveret.client.payload import Typed, Undecodable
from leveret.client.poison import OnError, Reject, Requeue, RetryLater, delivery_count
from leveret.client.pool import Pool, PoolStatistics
from leveret.client.pooled_channel import PooledChannel
from leveret.client.producer import Producer
from leveret.client.recovery import State
from leveret.client.rpc import RemoteError, Rpc
from leveret.client.rpc_server import RpcServer
from leveret.client.stream import Stream, StreamMessage
from leveret.client.super_stream import SuperStream, declare_super_stream, partition_key
from leveret.client.tracing import Tracing
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
    "ConnectionMetrics",
    "ConnectionPool",
    "Consumer",
    "ConsumerCancelled",
    "DeadlineExceeded",
    "Delivery",
    "InvalidUrl",
    "Message",
    "NoPartitions",
    "OffsetStore",
    "OnError",
    "PartMetrics",
    "Pool",
    "PoolStatistics",
    "PooledChannel",
    "Producer",
    "PrometheusCollector",
    "QueueOffsetStore",
    "Refused",
    "Reject",
    "RemoteError",
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
    "Tracing",
    "Typed",
    "Undecodable",
    "Unroutable",
    "connect",
    "declare_super_stream",
    "delivery_count",
    "partition_key",
]
