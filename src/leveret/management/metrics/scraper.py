"""One scrape: which families an endpoint shows, and their text, a piece at a time.

/metrics adds everything up, so that what Prometheus keeps does not grow with the broker. /metrics/per-object says it
for each queue, exchange, channel and connection; /metrics/detailed does so for the groups that are asked for, under
names of their own, so that both can be scraped."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from leveret.management.metrics import (
    budget_families,
    dead_letter_families,
    link_families,
    message_families,
    node_families,
)
from leveret.management.metrics.client_columns import CHANNEL_TABLES, CONNECTION_TABLES
from leveret.management.metrics.exposition import Family, family_text
from leveret.management.metrics.memory import memory_families
from leveret.management.metrics.objects import Rows
from leveret.management.metrics.queue_columns import (
    BINDING_TABLES,
    DEAD_LETTER_TABLES,
    EXCHANGE_TABLES,
    QUEUE_TABLES,
    STORED_OFFSET_TABLES,
    STREAM_TABLES,
    VHOST_TABLES,
)
from leveret.management.metrics.source import Source
from leveret.management.metrics.sums import QueueSums
from leveret.management.metrics.table import Column, Row, Table, write_columns
from leveret.operations.statistics.totals import Totals
from leveret.runtime.time_slice import TimeSlice

AGGREGATED, PER_OBJECT, DETAILED, MEMORY = "aggregated", "per-object", "detailed", "memory-breakdown"

# Groups of /metrics/detailed that are of the node alone.
NODE_GROUPS: Final[dict[str, Callable[[Source, Totals], list[Family]]]] = {
    "connection_churn_metrics": lambda source, totals: node_families.churn(totals),
    "node_coarse_metrics": node_families.room,
    "node_metrics": lambda source, totals: node_families.limits(source),
    "node_persister_metrics": node_families.disk,
    "auth_attempt_metrics": lambda source, totals: node_families.logins(source),
}
EVERY_FAMILY: Final = frozenset(
    table.family
    for table in (
        *(*QUEUE_TABLES, *STREAM_TABLES, *STORED_OFFSET_TABLES, *EXCHANGE_TABLES, *BINDING_TABLES, *VHOST_TABLES),
        *(*DEAD_LETTER_TABLES, *CHANNEL_TABLES, *CONNECTION_TABLES),
    )
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for. `families` counts for the detailed endpoint alone; no vhosts or queues means all of them."""

    endpoint: str
    openmetrics: bool = False
    families: frozenset[str] = frozenset()
    vhosts: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()


class Scraper:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows = Rows(source.broker)

    async def scrape(self, wanted: Wanted) -> AsyncGenerator[str]:
        turn = TimeSlice()
        for family in node_families.identity(self._source, wanted.endpoint):
            yield family_text(family, wanted.openmetrics)
        if wanted.endpoint == DETAILED:
            for family in self._node_groups(wanted.families):
                yield family_text(family, wanted.openmetrics)
        else:
            async for family in self._node(wanted.endpoint, turn):
                yield family_text(family, wanted.openmetrics)
                await turn.rest()
        if wanted.endpoint == PER_OBJECT:
            wanted = replace(wanted, families=EVERY_FAMILY)
        if wanted.endpoint in (PER_OBJECT, DETAILED):
            async for text in self._tables(wanted, turn):
                yield text

    # ---- the node

    async def _node(self, endpoint: str, turn: TimeSlice) -> AsyncIterator[Family]:
        source = self._source
        sums = await self._sums(turn)
        if endpoint == MEMORY:
            connections = await self._rows.connections(turn)
            for family in memory_families(sums, connections, source.watched()):
                yield family
            return
        totals = source.statistics.totals()
        await turn.rest()
        if endpoint == AGGREGATED:
            for family in message_families.all_queues(totals, sums):
                yield family
        for families in (
            node_families.existing(totals),
            node_families.alarms(source),
            node_families.descriptors(source),
            budget_families.budgets(source),
            node_families.room(source, totals),
            node_families.limits(source),
            node_families.disk(source, totals),
            node_families.churn(totals),
            node_families.logins(source),
            message_families.messages(totals),
            message_families.dead_letters(source, totals),
            dead_letter_families.dead_letter_care(source),
            link_families.links(source),
            message_families.stream_errors(totals),
            node_families.times(totals),
            node_families.own(source, totals, sums),
        ):
            for family in families:
                yield family

    def _node_groups(self, wanted: Collection[str]) -> list[Family]:
        groups = [NODE_GROUPS[name] for name in NODE_GROUPS if name in wanted]
        if not groups:
            return []
        totals = self._source.statistics.totals()
        return [
            replace(family, name=family.name.replace("rabbitmq_", "rabbitmq_detailed_", 1))
            for group in groups
            for family in group(self._source, totals)
        ]

    async def _sums(self, turn: TimeSlice) -> QueueSums:
        rows = await self._rows.queues(turn)
        sums = QueueSums(stream_lag=max((lag for _, lag in await self._rows.lags(rows, turn)), default=0))
        async for _, view in self._rows.looked_into(rows, turn):
            sums.add(view)
        return sums

    # ---- objects

    async def _tables(self, wanted: Wanted, turn: TimeSlice) -> AsyncIterator[str]:
        chosen = columns_of(QUEUE_TABLES, wanted.families)
        streams = columns_of(STREAM_TABLES, wanted.families)
        if chosen or streams:
            rows = await self._rows.queues(turn, wanted.vhosts, wanted.queues)
            views = [view async for view in self._rows.looked_into(rows, turn)] if chosen else []
            async for text in self._write(chosen, views, wanted, turn):
                yield text
            await turn.release(views)
            lags = await self._rows.lags(rows, turn) if streams else ()
            async for text in self._write(streams, lags, wanted, turn):
                yield text
            stored = columns_of(STORED_OFFSET_TABLES, wanted.families)
            lags = await self._rows.stored_lags(rows, turn) if stored else ()
            async for text in self._write(stored, lags, wanted, turn):
                yield text
        if chosen := columns_of(DEAD_LETTER_TABLES, wanted.families):
            letters = await self._rows.dead_letters(turn, wanted.vhosts, wanted.queues)
            async for text in self._write(chosen, letters, wanted, turn):
                yield text
        if chosen := columns_of(EXCHANGE_TABLES, wanted.families):
            async for text in self._write(chosen, self._rows.exchanges(wanted.vhosts), wanted, turn):
                yield text
        if chosen := columns_of(BINDING_TABLES, wanted.families):
            async for text in self._write(chosen, self._rows.bindings(wanted.vhosts), wanted, turn):
                yield text
        if chosen := columns_of(VHOST_TABLES, wanted.families):
            async for text in self._write(chosen, self._rows.vhosts(wanted.vhosts), wanted, turn):
                yield text
        if chosen := columns_of(CHANNEL_TABLES, wanted.families):
            async for text in self._write(chosen, await self._rows.channels(turn), wanted, turn):
                yield text
        if chosen := columns_of(CONNECTION_TABLES, wanted.families):
            async for text in self._write(chosen, await self._rows.connections(turn), wanted, turn):
                yield text

    @staticmethod
    def _write(columns: Iterable[Column], rows: Sequence[Row], wanted: Wanted, turn: TimeSlice) -> AsyncIterator[str]:
        return write_columns(columns, rows, wanted.endpoint == DETAILED, wanted.openmetrics, turn)


def columns_of(tables: Iterable[Table], families: Collection[str]) -> list[Column]:
    """Each column once, although groups share some."""
    found = {column.name: column for table in tables if table.family in families for column in table.columns}
    return list(found.values())
