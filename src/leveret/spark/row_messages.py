"""Rows as messages: which column becomes what of a message, and what the options say for columns that are not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from leveret.client.bulk import (
    FORGOTTEN,
    ID_HEADER,
    MANDATORY,
    PRODUCER_HEADER,
    Int64,
    Outgoing,
    RowHeaders,
    RowOutgoing,
    headers_from_json,
)
from leveret.client.message import Message, written_properties
from leveret.client.publishing.message_encoder import MessageEncoder
from leveret.spark.cells import cells_of
from leveret.spark.errors import InvalidOption
from leveret.spark.schema import COLUMNS

__all__ = ["Made", "RowMessages", "check_columns"]

BODIES = ("body", "value")
TEXTS = ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "type", "user_id", "app_id")
NUMBERS = ("delivery_mode", "priority")
PRODUCER, PUBLISHING_ID = "producer_name", "publishing_id"
# What a row that was read has, and a message that is written does not.
PASSED_OVER = {
    "stream",
    "partition",
    "offset",
    "timestamp",
    "cluster_id",
    *(name for name in COLUMNS.names if "death" in name),
}
USED = {
    *BODIES,
    *TEXTS,
    *NUMBERS,
    "exchange",
    "routing_key",
    "message_id",
    "message_timestamp",
    "headers",
    "headers_json",
    PRODUCER,
    PUBLISHING_ID,
}
TYPES = {
    "body": ("binary", "string"),
    "value": ("binary", "string"),
    "delivery_mode": ("int", "tinyint", "smallint", "bigint"),
    "priority": ("int", "tinyint", "smallint", "bigint"),
    "message_timestamp": ("timestamp",),
    "headers": ("map<string,string>",),
    PUBLISHING_ID: ("bigint", "int"),
}
ODD = ("headers", "headers_json", "delivery_mode", "priority", "expiration", "message_timestamp")
NAME_BYTES_MAX = 255


def check_columns(schema: StructType, options: Mapping[str, Any]) -> None:
    """Raises InvalidOption if rows of this kind cannot be published."""
    names = schema.names
    if not any(name in names for name in BODIES):
        raise InvalidOption(f"a column body (or value) must be there; there are {', '.join(names)}")
    unknown = [name for name in names if name not in USED and name not in PASSED_OVER]
    if unknown:
        raise InvalidOption(
            f"nobody knows what the columns {', '.join(unknown)} are for; select those that are needed: "
            f"{', '.join(sorted(USED))}"
        )
    for name in names:
        if name in USED and (kind := schema[name].dataType.simpleString()) not in TYPES.get(name, ("string",)):
            raise InvalidOption(f"the column {name} is {kind}; it must be {' or '.join(TYPES.get(name, ('string',)))}")
    if "routing_key" not in names and options["routingKey"] is None:
        raise InvalidOption("where rows go is not said: a column routing_key or the option routingKey must be there")
    if (PRODUCER in names) != (PUBLISHING_ID in names):
        raise InvalidOption(f"the columns {PRODUCER} and {PUBLISHING_ID} go together")


class Made(NamedTuple):
    """What a table's rows became: a message for each, or None, and then why there is none, by the row's place."""

    messages: list[Outgoing | None]
    errors: dict[int, str]


class RowMessages:
    """Rows that are as they should be are made by the compiled core; the others are looked at one by one, here."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        # What rows have whose columns do not say it: the producer's name, and what message ids begin with.
        self._producer = self._message_ids = ""
        self._mode = 2 if options["persistent"] else 1
        self._encoder = MessageEncoder()
        self._rows = self._compiled()

    def _compiled(self) -> RowOutgoing | None:
        """None if what all rows share is such as no message can have: then each is told."""
        options = self._options
        texts = [options["exchange"] or "", options["routingKey"], options["contentType"]]
        try:
            exchange, key, kind = octets = [None if text is None else text.encode() for text in texts]
        except UnicodeEncodeError:
            return None
        if any(one is not None and len(one) > NAME_BYTES_MAX for one in octets):
            return None
        priority = -1 if options["priority"] is None else options["priority"]
        bits = MANDATORY if options["mandatory"] else 0
        return RowOutgoing(exchange, key, kind, self._mode, priority, bits, b"", RowHeaders(b""))

    def of(self, table: pa.RecordBatch, producer: str, message_ids: str) -> Made:
        """The rows' messages, in their order. Where no column says it, rows have this producer's name, their numbers in
        the table for publishing ids, and message ids that begin so."""
        self._producer, self._message_ids = producer, message_ids
        cells = None if self._rows is None else cells_of(table, USED)
        if self._rows is None or cells is None:
            messages: list[Outgoing | None] = [None] * table.num_rows
        else:
            cells["body"] = cells[next(name for name in BODIES if name in cells)]
            self._rows.rename(producer.encode(), f"{message_ids}-".encode())
            messages = self._rows.make(cells, table.num_rows)
        errors: dict[int, str] = {}
        if None in messages:
            odd = [row for row, message in enumerate(messages) if message is None]
            for row, one in zip(odd, self._one_by_one(table.take(pa.array(odd)), odd), strict=True):
                if isinstance(one, Outgoing):
                    messages[row] = one
                else:
                    errors[row] = str(one)
        return Made(messages, errors)

    def _one_by_one(self, table: pa.RecordBatch, rows: list[int]) -> Iterator[Outgoing | Exception]:
        columns = {name: table.column(name).to_pylist() for name in table.schema.names if name in USED}
        bodies = columns.get("body") or columns.get("value") or []
        for place, row in enumerate(rows):
            try:
                yield self._encoder.make_from(self._message(columns, bodies, place, row))
            except (TypeError, ValueError) as error:
                yield error

    def _message(self, columns: Mapping[str, list[Any]], bodies: list[Any], row: int, number: int) -> Message:
        def cell(name: str, default: Any = None) -> Any:
            values = columns.get(name)
            value = None if values is None else values[row]
            return default if value is None else value

        options = self._options
        body = bodies[row]
        exchange = cell("exchange", options["exchange"] or "")
        routing_key = cell("routing_key", options["routingKey"])
        if body is None:
            raise ValueError("its body is null; an empty message has an empty body")
        if routing_key is None:
            raise ValueError("its routing_key is null, and the option routingKey is not given")
        moment = cell("message_timestamp")
        message = Message(
            body=body.encode() if isinstance(body, str) else body,
            exchange=exchange,
            routing_key=routing_key,
            mandatory=options["mandatory"],
            headers=self._headers(cell, number),
            # An empty one, which some publish, is none.
            message_id=cell("message_id") or f"{self._message_ids}-{number}",
            delivery_mode=cell("delivery_mode", self._mode),
            priority=cell("priority", options["priority"]),
            timestamp=None if moment is None else int(moment.timestamp()),
            **{name: cell(name) for name in TEXTS},
        )
        if message.content_type is None:
            message.content_type = options["contentType"]
        _check_texts(message)
        if self._is_odd(columns):
            # So that what cannot be written is found here, with its row, before anything is published.
            try:
                written_properties(message.properties(), message.headers, message.message_id or "")
            except TypeError as error:
                raise ValueError(str(error)) from None
        return message

    @staticmethod
    def _is_odd(columns: Mapping[str, list[Any]]) -> bool:
        """Whether there are columns whose values may be such as no message can have."""
        return any(name in columns for name in ODD)

    def _headers(self, cell: Any, number: int) -> dict[str, Any]:
        exact = cell("headers_json")
        if exact is not None:
            headers = headers_from_json(exact)
        else:
            headers = dict(cell("headers", ()))
        for name in FORGOTTEN:
            headers.pop(name, None)
        producer, publishing_id = cell(PRODUCER, self._producer), cell(PUBLISHING_ID, number)
        # A stream that cannot use them takes the message every time.
        if not 0 < len(producer.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX:
            raise ValueError(f"its {PRODUCER} is {producer[:80]!r}; it must have 1 to {NAME_BYTES_MAX} octets")
        if publishing_id < 0:
            raise ValueError(f"its {PUBLISHING_ID} is {publishing_id}, which is below 0")
        headers[PRODUCER_HEADER] = producer
        # As 64 bits always, so that the same rows are the same octets.
        headers[ID_HEADER] = Int64(publishing_id)
        return headers


def _check_texts(message: Message) -> None:
    for name in ("exchange", "routing_key", "message_id", *TEXTS):
        value = getattr(message, name)
        if value is not None and len(value.encode("utf-8", "surrogatepass")) > 255:
            raise ValueError(f"its {name} has {len(value.encode('utf-8', 'surrogatepass'))} octets, more than 255")
