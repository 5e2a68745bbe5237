"""Tables of metrics: one row for each queue, channel or connection, one column for each metric.

Written column by column, as the format wants it, and never for longer than a slice of time at once: a broker with ten
thousand queues goes on delivering while it is scraped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leveret.management.metrics.exposition import Kind, head
from leveret.runtime.time_slice import TimeSlice

# Rows between two looks at the clock.
ROWS_A_STEP: Final = 64

CLUSTER: Final = "rabbitmq_cluster_"

# A row's object, and its labels as they are written.
Row = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of every row. `read` gives the value as it is written, or None for a row that has none."""

    name: str
    kind: Kind
    help: str
    read: Callable[[Any], object]
    # What stands before the name, with "detailed_" behind it on the detailed endpoint; but not of what is the same for
    # the whole cluster.
    prefix: str = "rabbitmq_"


@dataclass(frozen=True, slots=True)
class Table:
    """What RabbitMQ calls a family: columns that are asked for together."""

    family: str
    columns: tuple[Column, ...]


async def write_columns(
    columns: Iterable[Column], rows: Sequence[Row], detailed: bool, openmetrics: bool, turn: TimeSlice
) -> AsyncIterator[str]:
    for column in columns:
        detail = "detailed_" if detailed and column.prefix != CLUSTER else ""
        name = f"{column.prefix}{detail}{column.name}"
        yield head(name, column.kind, column.help, openmetrics)
        read = column.read
        for start in range(0, len(rows), ROWS_A_STEP):
            yield "".join(
                [
                    f"{name}{labels} {value}\n"
                    for labels, thing in rows[start : start + ROWS_A_STEP]
                    if (value := read(thing)) is not None
                ]
            )
            await turn.rest()
