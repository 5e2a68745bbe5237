"""The rows that tables of metrics are made of: every queue, exchange, channel and connection, with its labels.

What a row is called never changes, so the text of its labels is kept from one scrape to the next."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from leveret.broker.broker import Broker
from leveret.management.metrics.exposition import labels_text
from leveret.management.metrics.table import ROWS_A_STEP, Pace, Row


class Rows:
    """Lists what exists. Called by the scraper only."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Of queues, by virtual host and name; only what existed at the last full scrape.
        self._labels: dict[tuple[str, bytes], str] = {}
        # Of connections, by their number.
        self._names: dict[int, str] = {}

    async def queues(self, pace: Pace, vhosts: Collection[str] = (), names: Collection[str] = ()) -> list[Row]:
        """Of these virtual hosts, with these names; of none means of all."""
        rows: list[Row] = []
        known, kept = self._labels, {}
        for vhost in list(self._broker.vhosts.values()):
            if vhosts and vhost.name not in vhosts:
                continue
            queues = list(vhost.queues.values())
            for start in range(0, len(queues), ROWS_A_STEP):
                for queue in queues[start : start + ROWS_A_STEP]:
                    if names and queue.record.name not in names:
                        continue
                    key = (vhost.name, queue.name)
                    labels = known.get(key)
                    if labels is None:
                        labels = labels_text((("vhost", vhost.name), ("queue", queue.record.name)))
                    kept[key] = labels
                    rows.append((labels, queue))
                await pace.rest()
        if not vhosts and not names:
            self._labels = kept
        return rows

    def exchanges(self, vhosts: Collection[str] = ()) -> list[Row]:
        return [
            (labels_text((("vhost", vhost.name), ("exchange", exchange.record.name))), exchange)
            for vhost in self._broker.vhosts.values()
            if not vhosts or vhost.name in vhosts
            for exchange in vhost.exchanges.values()
        ]

    def vhosts(self, vhosts: Collection[str] = ()) -> list[Row]:
        return [
            (labels_text((("vhost", vhost.name),)), vhost)
            for vhost in self._broker.vhosts.values()
            if not vhosts or vhost.name in vhosts
        ]

    async def connections(self, pace: Pace) -> list[Row]:
        found: list[Row] = []
        for session in await self._sessions(pace):
            found.append((labels_text((("connection", self._names[session.connection_id]),)), session))
            await pace.rest()
        return found

    async def channels(self, pace: Pace) -> list[Row]:
        found: list[Row] = []
        for session in await self._sessions(pace):
            name = self._names[session.connection_id]
            for number, desk in sorted(getattr(session, "desks", {}).items()):
                labels = (("channel", f"{name} ({number})"), ("vhost", session.vhost.name))
                found.append((labels_text(labels), desk))
            await pace.rest()
        return found

    async def _sessions(self, pace: Pace) -> list[Any]:
        """Those that are open, with their names as RabbitMQ makes them: who is connected to what. The broker sees a
        connection only as somebody to tell things, so its type is not known on this floor."""
        sessions: list[Any] = list(self._broker.connections.values())
        names: dict[int, str] = {}
        found = []
        for session in sessions:
            if session.gone:
                continue
            number = session.connection_id
            name = self._names.get(number)
            if name is None:
                name = f"{session.peer_name} -> {session.pump.local[0]}:{session.pump.local[1]}"
            names[number] = name
            found.append(session)
            await pace.rest()
        self._names = names
        return found
