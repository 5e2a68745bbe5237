"""A client for RabbitMQ, Leveret and every other AMQP 0-9-1 broker: asyncio first, with a blocking face.

    async with connect("amqp://guest:guest@localhost/") as connection:
        channel = await connection.channel()

Imports nothing of the broker, and installs without it."""

from leveret.client.channel import Channel
from leveret.client.connection import Connection, connect
from leveret.client.errors import (
    AlreadySettled,
    AuthenticationFailed,
    ChannelClosed,
    ClientClosed,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    InvalidUrl,
    Refused,
    StaleDelivery,
    Unroutable,
)
from leveret.client.offset_store import OffsetStore, QueueOffsetStore, SqliteOffsetStore
from leveret.client.recovery import State
from leveret.client.rpc import RemoteError, Reply, Rpc
from leveret.client.rpc_server import RpcServer
from leveret.client.stream import Stream, StreamMessage
from leveret.client.super_stream import SuperStream, declare_super_stream, partition_key
from leveret.core.client.delivery import Delivery

__all__ = [
    "AlreadySettled",
    "AuthenticationFailed",
    "Channel",
    "ChannelClosed",
    "ClientClosed",
    "ClientError",
    "Connection",
    "ConnectionFailed",
    "ConnectionLost",
    "DeadlineExceeded",
    "Delivery",
    "InvalidUrl",
    "OffsetStore",
    "QueueOffsetStore",
    "Refused",
    "RemoteError",
    "Reply",
    "Rpc",
    "RpcServer",
    "SqliteOffsetStore",
    "StaleDelivery",
    "State",
    "Stream",
    "StreamMessage",
    "SuperStream",
    "Unroutable",
    "connect",
    "declare_super_stream",
    "partition_key",
]
