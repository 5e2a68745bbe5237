"""The contract of a queue type: which arguments it takes, and how one is made.

A type is a small file beside this one and is found through the registry; callers never ask which type they have."""

from __future__ import annotations

from typing import Any, Protocol

from leveret.catalog import arguments as check
from leveret.catalog.arguments import Check
from leveret.catalog.delays import parse_delays
from leveret.catalog.records import Arguments, QueueRecord
from leveret.core.contract import Queue
from leveret.core.office import Office
from leveret.core.wording import shown_type
from leveret.errors import InvalidPolicy, SoftError


def delays(value: Any) -> str | None:
    """The tiers of a retry, such as: 1s, 5s, 30s, 5min."""
    try:
        parse_delays(value, "x-retry-delays")
    except InvalidPolicy as error:
        return f'"{error}"'
    return None


# Every argument a queue of any type can have, with its check. A name that is not here is not ours and is ignored.
ARGUMENT_CHECKS: dict[str, Check] = {
    "x-expires": check.positive_duration,
    "x-message-ttl": check.duration,
    "x-max-length": check.non_negative,
    "x-max-length-bytes": check.non_negative,
    "x-max-priority": check.priority_range,
    "x-overflow": check.one_of(("drop-head", "reject-publish", "reject-publish-dlx"), "invalid_overflow"),
    "x-dead-letter-exchange": check.string,
    "x-dead-letter-routing-key": check.string,
    "x-single-active-consumer": check.boolean,
    "x-queue-type": check.string,
    "x-queue-mode": check.one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-version": check.integer,
    "x-queue-master-locator": check.string,
    "x-delivery-limit": check.non_negative,
    "x-max-in-memory-length": check.non_negative,
    "x-max-in-memory-bytes": check.non_negative,
    "x-quorum-initial-group-size": check.non_negative,
    "x-queue-leader-locator": check.string,
    "x-dead-letter-strategy": check.string,
    "x-max-age": check.string,
    "x-stream-max-segment-size-bytes": check.non_negative,
    "x-initial-cluster-size": check.non_negative,
    "x-consumer-timeout": check.positive_duration,
    "x-retry-delays": delays,
    "x-parking-lot": check.string,
    **check.DEDUPLICATION_CHECKS,
}


class QueueType(Protocol):
    name: str
    # The name that stands in RabbitMQ's texts.
    module: str
    arguments: frozenset[str]

    def validate(self, record: QueueRecord, what: str) -> None:
        """Raises what RabbitMQ would; `what` is the queue in a text, such as: queue 'q' in vhost '/'."""

    def create(self, record: QueueRecord, stock: Stock | None = None, office: Office | None = None) -> Queue:
        """A live queue; without a stock it keeps everything in memory and nothing survives."""

    def govern(self, queue: Any, arguments: Arguments) -> None:
        """These arguments are in force from now on: those it was declared with, and what policies add."""


class Stock(Protocol):
    """What the store gives to queues."""

    # core.shelf.Shelf and core.journal.Journal
    shelf: Any
    journal: Any

    def ledger(self, queue_id: int) -> Any:
        """A core.ledger.Ledger for a queue that survives."""


def validate_arguments(queue_type: QueueType, record: QueueRecord, what: str) -> None:
    """Known arguments have the right type and range, and the queue's type takes them."""
    for name, value in record.arguments.items():
        checker = ARGUMENT_CHECKS.get(name)
        if checker is None:
            continue
        if name not in queue_type.arguments:
            raise SoftError(406, f"invalid arg '{name}' for {what} of queue type {queue_type.module}")
        if name == "x-dead-letter-exchange" and not isinstance(value, str):
            raise SoftError(406, f"invalid type '{shown_type(value)}' for arg '{name}' in {what}")
        reason = checker(value)
        if reason is not None:
            raise SoftError(406, f"invalid arg '{name}' for {what}: {reason}")
    if "x-dead-letter-routing-key" in record.arguments and "x-dead-letter-exchange" not in record.arguments:
        reason = "routing_key_but_no_dlx_defined"
        raise SoftError(406, f"invalid arg 'x-dead-letter-routing-key' for {what}: {reason}")
