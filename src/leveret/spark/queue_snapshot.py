"""What waits in a queue, as a table: `spark.read.format("leveret").option("queue", name)`.

Looks without taking anything: neither order nor marks nor counters change. Each page of the management API's peek goes
on behind the last position of the one before, whatever its length, and messages which leave meanwhile make no hole:
what stays in the queue all the time is seen once. One task reads it all. The column `stream` has the queue's name,
`offset` a message's position in it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from leveret.client.bulk import DEATH_COUNT, DEATHS, headers_to_json, value_text
from leveret.spark.broker_client import Broker
from leveret.spark.errors import InvalidOption, SourceFailed
from leveret.spark.management import get
from leveret.spark.schema import pick

__all__ = ["QueueSnapshot"]

PAGE = 1000
# Options that speak of offsets, which a queue has not.
FOR_STREAMS = (
    "stream",
    "superStream",
    "streamPattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "groupName",
    "minPartitions",
)


def check_queue_options(options: Mapping[str, Any]) -> None:
    wrong = [name for name in FOR_STREAMS if options[name] is not None]
    if wrong:
        raise InvalidOption(f"the option queue is given, and {' and '.join(wrong)}, which is for streams")


class QueueSnapshot(DataSourceReader):
    def __init__(self, options: Mapping[str, Any], columns: Sequence[str]) -> None:
        check_queue_options(options)
        self._queue: str = options["queue"]
        self._limit: int | None = options["limit"]
        self._columns = list(columns)
        self._broker = Broker(options, "leveret-spark snapshot")

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(pick(self._columns), timezone="UTC")
        left = self._limit
        for page in self._pages():
            if left is not None:
                page = page[:left]
                left -= len(page)
            rows = [self._row(message) for message in page]
            yield pa.RecordBatch.from_pydict(
                {name: [row[name] for row in rows] for name in self._columns}, schema=schema
            )
            if left == 0:
                return

    def _pages(self) -> Iterator[list[dict[str, Any]]]:
        position = 0
        while page := self._peek(position):
            if page[0]["position"] <= position:
                raise SourceFailed(
                    f"looking into the queue {self._queue!r}: the broker at {self._broker.address} does not know the "
                    "parameter `after` of peek; it must be a Leveret of the connector's version or later"
                )
            position = page[-1]["position"]
            yield page

    def _peek(self, position: int) -> list[dict[str, Any]]:
        place = f"/api/queues/{quote(self._broker.vhost, safe='')}/{quote(self._queue, safe='')}/peek"
        path = f"{place}?after={position}&count={PAGE}&encoding=base64"
        found: list[dict[str, Any]] = get(self._broker, path, f"looking into the queue {self._queue!r}")
        return found

    def _row(self, message: Mapping[str, Any]) -> dict[str, Any]:
        properties = dict(message["properties"])
        headers = properties.pop("headers", None)
        moment = properties.pop("timestamp", None)
        row: dict[str, Any] = dict.fromkeys(self._columns)
        row.update(properties)
        row.update(
            body=base64.b64decode(message["payload"]),
            exchange=message["exchange"],
            routing_key=message["routing_key"],
            stream=self._queue,
            partition=0,
            offset=message["position"],
            timestamp=datetime.fromtimestamp(message["arrived_at"] / 1000, UTC) if message.get("arrived_at") else None,
            message_timestamp=_moment(moment),
        )
        if headers:
            row["headers"] = [(name, value_text(value)) for name, value in headers.items()]
            row["headers_json"] = headers_to_json(headers)
            row.update(
                {column: value for column, header in DEATHS.items() if isinstance(value := headers.get(header), str)}
            )
            deaths = headers.get("x-death")
            if isinstance(deaths, list):
                counts = [death.get("count") for death in deaths if isinstance(death, dict)]
                row[DEATH_COUNT] = sum(count for count in counts if isinstance(count, int) and 0 < count < 1 << 40)
        return row


def _moment(seconds: Any) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
