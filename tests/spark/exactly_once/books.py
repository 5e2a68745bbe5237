"""The books of a pipeline: what is published for it, and what must then be found at its other end.

`Books` is what a campaign needs of any pipeline; `FilesBooks` are those of the files: numbers, each of which is in the
lake and in the target once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from leveret.client.blocking import Connection
from tests.spark.exactly_once.findings import Findings
from tests.spark.exactly_once.ledger import Difference, Ledger
from tests.spark.exactly_once.places import SOURCE, TARGET
from tests.spark.exactly_once.publisher import DEADLINE_S, Send, declare_streams, numbered, read_stream

__all__ = ["Books", "FilesBooks"]


class Books(Protocol):
    # What is in the source.
    ledger: Ledger

    def declare(self, url: str) -> None: ...

    def open(self, connection: Connection) -> Send:
        """What publishes numbers and writes them down when they are confirmed."""

    def wait_until_settled(self, url: str) -> None:
        """Until nothing more comes out of what was published."""

    def compare(self, url: str, findings: Findings) -> dict[str, Difference]:
        """By table."""


class FilesBooks:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.declare: Callable[[str], None] = declare_streams

    def open(self, connection: Connection) -> Send:
        producer = connection.producer(exchange=SOURCE, publishing_name="shop", deadline_s=DEADLINE_S)

        def send(numbers: range) -> None:
            producer.publish_batch([numbered(number) for number in numbers])
            self.ledger.confirm(numbers)

        return send

    def wait_until_settled(self, url: str) -> None:
        """What is confirmed is in the stream."""

    def compare(self, url: str, findings: Findings) -> dict[str, Difference]:
        found = {**findings.ids, "target": read_stream(url, TARGET)}
        return {name: self.ledger.compare(ids) for name, ids in found.items()}
