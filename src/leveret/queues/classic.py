"""The classic queue type: one node, one order, any number of consumers."""

from __future__ import annotations

from leveret.catalog.records import QueueRecord
from leveret.core.contract import Queue
from leveret.core.queue import ClassicQueue
from leveret.errors import SoftError
from leveret.queues.queue_type import Stock, validate_arguments

QUEUE_VERSIONS = (1, 2)


class Classic:
    name = "classic"
    module = "rabbit_classic_queue"
    arguments = frozenset(
        (
            "x-expires",
            "x-message-ttl",
            "x-max-length",
            "x-max-length-bytes",
            "x-max-priority",
            "x-overflow",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-single-active-consumer",
            "x-queue-type",
            "x-queue-mode",
            "x-queue-version",
            "x-queue-master-locator",
        )
    )

    def validate(self, record: QueueRecord, what: str) -> None:
        validate_arguments(self, record, what)
        version = record.arguments.get("x-queue-version", 1)
        if version not in QUEUE_VERSIONS:
            raise SoftError(406, f"invalid arg 'x-queue-version' for {what}: \"unsupported queue version '{version}'\"")

    def create(self, record: QueueRecord, stock: Stock | None = None) -> Queue:
        name = record.name.encode("utf-8", "surrogateescape")
        single_active = record.arguments.get("x-single-active-consumer", False)
        if stock is None:
            return ClassicQueue(name, record, single_active)
        ledger = stock.ledger(record.id) if record.id else None
        lazy = record.arguments.get("x-queue-mode") == "lazy"
        return ClassicQueue(name, record, single_active, stock.shelf, ledger, lazy)
