"""A client for RabbitMQ, Leveret and every other AMQP 0-9-1 broker: asyncio first, with a blocking face.

    async with connect("amqp://guest:guest@localhost/") as connection:
        channel = await connection.channel()

Imports nothing of the broker, and installs without it."""

from leveret.client.batches import Batch
from leveret.client.connection import Connection, connect
from leveret.client.connection_pool import ConnectionPool
from leveret.client.consuming.consumer import Consumer
from leveret.client.consuming.poison import OnError, Reject, Requeue, RetryLater, delivery_count
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
from leveret.client.payload import Typed, Undecodable
from leveret.client.publishing.confirmation import Confirmation
from leveret.client.publishing.pool import Pool, PoolStatistics
from leveret.client.publishing.pooled_channel import PooledChannel
from leveret.client.publishing.producer import Producer
from leveret.client.rpc.caller import RemoteError, Rpc
from leveret.client.rpc.server import RpcServer
from leveret.client.streams.offset_store import OffsetStore, QueueOffsetStore, SqliteOffsetStore
from leveret.client.streams.stream import Stream, StreamMessage
from leveret.client.streams.super_stream import SuperStream, declare_super_stream, partition_key
from leveret.client.tracing import Tracing
from leveret.client.transport.channel import Channel
from leveret.client.transport.recovery import State
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
