"""What is told of each queue and stream, under RabbitMQ's names and in its groups.

A stream has no place in memory of its own, and nobody's head: such rows have no sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from leveret.core.queue import ClassicQueue
from leveret.core.stream.queue import StreamQueue
from leveret.management.metrics.exposition import Kind, Number
from leveret.management.metrics.table import Column, Table


def unacked_of(queue: Any) -> int:
    """A stream holds nothing back, but its AMQP consumers owe acks."""
    if isinstance(queue, StreamQueue):
        return sum(subscriber.unacked_count for subscriber in queue.subscribers or ())
    count: int = queue.unacked_count
    return count
