"""Sums over connections, channels and queues: of those that are there, and of those that are gone.

What a channel, a connection or a queue has counted is added to the broker's `Retired` when it goes, so totals never go
down and nothing is counted twice while messages run."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from leveret.core.connection.channel import Channel
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.stream.publish_path import StreamPublisher
from leveret.core.stream.queue import StreamQueue
from leveret.core.tally import ChannelTally, QueueTally
from leveret.wire.stream_codes import Code

AMQP091, STREAM = "amqp091", "stream"
LEAVING_FEW = 16


class Churn:
    """What came and went, whoever asked for it."""

    def __init__(self) -> None:
        self.channels_opened = 0
        self.channels_closed = 0
        # Asked for, made and deleted; recovery makes queues, too, but those were counted in their time.
        self.queues_declared = 0
        self.queues_created = 0
        self.queues_deleted = 0
        # What was refused to clients of the stream protocol, by response code.
        self.stream_errors: Counter[int] = Counter()


class Receiving(Protocol):
    """The compiled connection of either protocol."""

    @property
    def bytes_received(self) -> int: ...

    @property
    def chunks_received(self) -> int: ...


class Sending(Protocol):
    @property
    def bytes_sent(self) -> int: ...

    @property
    def sends_total(self) -> int: ...


class Activity:
    """What connections have done, and how many there are."""

    def __init__(self) -> None:
        self.connections = {AMQP091: 0, STREAM: 0}
        self.channels = ChannelTally()
        self.stream_publishers = 0
        self.stream_consumers = 0
        self.stream_received = 0
        self.stream_confirmed = 0
        self.bytes_received = 0
        self.bytes_sent = 0
        # What compiled code refused to clients of the stream protocol, by response code.
        self.stream_errors: Counter[int] = Counter()

    def add_connection(self, protocol: str, core: Receiving, write_buffer: Sending) -> None:
        self.connections[protocol] += 1
        self.bytes_received += core.bytes_received
        self.bytes_sent += write_buffer.bytes_sent

    def add_channel(self, channel: Channel) -> None:
        self.channels.add(channel)

    def add_publisher(self, publisher: StreamPublisher) -> None:
        self.stream_publishers += 1
        self.stream_received += publisher.published_total
        self.stream_confirmed += publisher.confirmed_total
        self.stream_errors[Code.ACCESS_REFUSED] += publisher.refused_total

    def merge(self, other: Activity) -> None:
        """Adds what happened elsewhere, but not what there is."""
        self.channels.merge(other.channels)
        self.stream_received += other.stream_received
        self.stream_confirmed += other.stream_confirmed
        self.bytes_received += other.bytes_received
        self.bytes_sent += other.bytes_sent
        self.stream_errors.update(other.stream_errors)


class Retired(Activity):
    """What those did who are gone, queues included."""

    def __init__(self) -> None:
        super().__init__()
        self._classic = QueueTally()
        self._stream = QueueTally()
        # Deleted queues of which something is still unacknowledged: that ends, too, and counts.
        self._leaving: list[ClassicQueue] = []
        # When there are so many, it is looked which of them are done.
        self._leaving_most = LEAVING_FEW

    def add_queue(self, queue: Queue) -> None:
        if isinstance(queue, StreamQueue):
            self._stream.add(queue)
        elif isinstance(queue, ClassicQueue) and queue.unacked_count > 0:
            self._leaving.append(queue)
            if len(self._leaving) >= self._leaving_most:
                self._add_those_that_left()
        else:
            self._classic.add(queue)

    def queues(self) -> tuple[QueueTally, QueueTally]:
        """Classic queues and streams, as sums to which those can be added that exist."""
        self._add_those_that_left()
        classic, stream = QueueTally(), QueueTally()
        classic.merge(self._classic)
        stream.merge(self._stream)
        for queue in self._leaving:
            one = QueueTally()
            one.add(queue)
            classic.merge(one)
        return classic, stream

    def _add_those_that_left(self) -> None:
        leaving: list[ClassicQueue] = []
        for queue in self._leaving:
            if queue.unacked_count > 0:
                leaving.append(queue)
            else:
                self._classic.add(queue)
        self._leaving = leaving
        self._leaving_most = max(LEAVING_FEW, 2 * len(leaving))
