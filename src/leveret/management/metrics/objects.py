"""The rows that tables of metrics are made of: every queue, exchange, channel and connection, with its labels.

Each row is of one moment, so that its numbers go together; rows are of different moments, a few milliseconds apart.
What a queue is called never changes, so the text of its labels is kept from one scrape to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any

from leveret.broker.broker import Broker
from leveret.core.stream.queue import StreamQueue
from leveret.core.tally import QueueTally
from leveret.management.metrics.client_columns import ChannelView
from leveret.management.metrics.exposition import labels_text
from leveret.management.metrics.queue_columns import QueueView
from leveret.management.metrics.table import Row
from leveret.operations.dead_letter_queues import DeadLetterQueues
from leveret.runtime.time_slice import TimeSlice


class Rows:
    """Lists what exists. Called by the scraper only."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Of queues, by virtual host and name; only of those that existed at the last full scrape.
        self._labels: dict[tuple[str, bytes], str] = {}

    async def queues(self, turn: TimeSlice, vhosts: Collection[str] = (), names: Collection[str] = ()) -> list[Row]:
        """Of these virtual hosts, with these names; of none means of all."""
        rows: list[Row] = []
        known, kept = self._labels, {}
        for vhost in list(self._broker.vhosts.values()):
            if vhosts and vhost.name not in vhosts:
                continue
            for queue in list(vhost.queues.values()):
                if not names or queue.record.name in names:
                    key = (vhost.name, queue.name)
                    labels = known.get(key)
                    if labels is None:
                        labels = labels_text((("vhost", vhost.name), ("queue", queue.record.name)))
                    kept[key] = labels
                    rows.append((labels, queue))
                await turn.rest()
        if not vhosts and not names:
            self._labels = kept
        return rows

    async def looked_into(self, rows: Iterable[Row], turn: TimeSlice) -> AsyncIterator[Row]:
        """The same rows with what is to be told of each queue."""
        self._broker.tick()
        now_ms = self._broker.office.now
        for labels, queue in rows:
            yield labels, QueueView(queue, now_ms)
            await turn.rest()

    async def lags(self, rows: Iterable[Row], turn: TimeSlice) -> list[Row]:
        """How far the slowest consumer of each stream is behind; none for streams without consumers."""
        labels_of = {}
        for labels, queue in rows:
            if isinstance(queue, StreamQueue):
                labels_of[queue] = labels
            await turn.rest()
        streams = {(queue.record.vhost, queue.record.name): queue for queue in labels_of}
        behind: dict[Any, int] = {}
        for queue in labels_of:
            for consumer in queue.subscribers or ():
                if consumer.cursor is None:
                    # Another of its group reads, or it is not known yet where it begins.
                    continue
                behind[queue] = max(behind.get(queue, 0), queue.committed_offset - consumer.cursor.offset)
            await turn.rest()
        for connection in list(self._broker.connections.values()) if streams else ():
            for subscription in connection.subscriptions_seen():
                stream = streams.get((connection.vhost_name, subscription.stream))
                if stream is not None:
                    behind[stream] = max(behind.get(stream, 0), subscription.offset_lag)
            await turn.rest()
        return [(labels_of[queue], max(0, lag)) for queue, lag in behind.items()]

    async def stored_lags(self, rows: Iterable[Row], turn: TimeSlice) -> list[Row]:
        """How far each consumer whose offset is stored is behind, with a label of its own."""
        found: list[Row] = []
        for _, queue in rows:
            if isinstance(queue, StreamQueue):
                where = (("vhost", queue.record.vhost), ("queue", queue.record.name))
                for name, lag in queue.stored_lags().items():
                    found.append((labels_text((*where, ("consumer", name.decode("utf-8", "replace")))), lag))
            await turn.rest()
        return found

    async def dead_letters(
        self, turn: TimeSlice, vhosts: Collection[str] = (), names: Collection[str] = ()
    ) -> list[Row]:
        """How many messages each queue of dead letters has, once for each queue they come from."""
        rows: list[Row] = []
        for vhost in list(self._broker.vhosts.values()):
            if vhosts and vhost.name not in vhosts:
                continue
            for queue, sources in (await DeadLetterQueues(self._broker, vhost).sources(turn)).items():
                await turn.rest()
                if names and queue.record.name not in names:
                    continue
                tally = QueueTally()
                tally.add(queue)
                where = (("vhost", vhost.name), ("queue", queue.record.name))
                for source in sources:
                    rows.append((labels_text((*where, ("source", source))), tally.ready + tally.unacked))
        return rows

    def exchanges(self, vhosts: Collection[str] = ()) -> list[Row]:
        return [
            (labels_text((("vhost", vhost.name), ("exchange", exchange.record.name))), exchange)
            for vhost in self._broker.vhosts.values()
            if not vhosts or vhost.name in vhosts
            for exchange in vhost.exchanges.values()
        ]

    def bindings(self, vhosts: Collection[str] = ()) -> list[Row]:
        """How many each exchange has."""
        return [
            (
                labels_text((("vhost", name), ("exchange", exchange.name), ("type", exchange.kind))),
                len(topology.bindings_from.get(exchange.name, ())),
            )
            for name, topology in self._broker.catalog.topologies.items()
            if not vhosts or name in vhosts
            for exchange in topology.exchanges.values()
            # Everything is bound to the default exchange, by its name.
            if exchange.name
        ]

    def vhosts(self, vhosts: Collection[str] = ()) -> list[Row]:
        return [
            (labels_text((("vhost", name),)), vhost)
            for name, vhost in self._broker.vhosts.items()
            if not vhosts or name in vhosts
        ]

    async def connections(self, turn: TimeSlice) -> list[Row]:
        found: list[Row] = []
        for connection in list(self._broker.connections.values()):
            found.append((labels_text((("connection", connection.name),)), connection.seen()))
            await turn.rest()
        return found

    async def channels(self, turn: TimeSlice) -> list[Row]:
        found: list[Row] = []
        for connection in list(self._broker.connections.values()):
            for channel in connection.channels():
                labels = (("channel", channel.name), ("vhost", connection.vhost_name))
                found.append((labels_text(labels), ChannelView(channel)))
            await turn.rest()
        return found
