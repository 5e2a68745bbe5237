"""The contract of a queue type: which arguments it takes, and how one is made.

A type is a small file beside this one and is found through the registry; callers never ask which type they have."""

from __future__ import annotations

from typing import Any, Protocol

from leveret.catalog import arguments as check
from leveret.catalog.arguments import Check
from leveret.catalog.delays import parse_delays
from leveret.catalog.policy_keys import age_s
from leveret.catalog.records import Arguments, QueueRecord
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets
from leveret.core.codec.wording import shown_type
from leveret.core.queue.contract import Queue
from leveret.core.queue.office import Office
from leveret.errors import InvalidPolicy, SoftError

# RabbitMQ's two ways to keep a queue on disk, which are one here.
QUEUE_VERSIONS = (1, 2)
LEADER_LOCATORS = ("client-local", "balanced", "random", "least-leaders")


def delays(value: Any) -> str | None:
    """The tiers of a retry, such as: 1s, 5s, 30s, 5min."""
    try:
        parse_delays(value, "x-retry-delays")
    except InvalidPolicy as error:
        return f'"{error}"'
    return None


def queue_name(value: Any) -> str | None:
    """The queue is made when it is needed, and then its name must do."""
    reason = check.string(value)
    if reason is None and not 0 < len(name_octets(value)) <= NAME_OCTETS_MAX:
        reason = '"a parking lot takes the name of a queue"'
    return reason


def version(value: Any) -> str | None:
    reason = check.non_negative(value)
    if reason is None and value not in QUEUE_VERSIONS:
        reason = f"\"unsupported queue version '{value}'\""
    return reason


def max_age(value: Any) -> str | None:
    return check.string(value) or (None if age_s(value) else "invalid_max_age")


# Every argument that a queue of some type heeds, with its check, in the order in which RabbitMQ checks them; ours
# follow, then those of other types. A name that is not here is not ours and is ignored.
ARGUMENT_CHECKS: dict[str, Check] = {
    "x-dead-letter-exchange": check.string,
    "x-queue-type": check.string,
    "x-expires": check.positive_duration,
    "x-message-ttl": check.duration,
    "x-dead-letter-routing-key": check.string,
    "x-max-length": check.non_negative,
    "x-max-length-bytes": check.non_negative,
    "x-max-priority": check.priority_range,
    "x-overflow": check.one_of(("drop-head", "reject-publish", "reject-publish-dlx"), "invalid_overflow"),
    "x-queue-mode": check.one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-version": version,
    "x-single-active-consumer": check.boolean,
    "x-queue-master-locator": check.anything,
    "x-delivery-limit": check.non_negative,
    "x-consumer-timeout": check.positive_duration,
    "x-retry-delays": delays,
    "x-parking-lot": queue_name,
    **check.DEDUPLICATION_CHECKS,
    "x-max-in-memory-length": check.non_negative,
    "x-max-in-memory-bytes": check.non_negative,
    "x-quorum-initial-group-size": check.non_negative,
    "x-dead-letter-strategy": check.string,
    "x-max-age": max_age,
    "x-stream-max-segment-size-bytes": check.non_negative,
    "x-initial-cluster-size": check.positive,
    "x-queue-leader-locator": check.one_of(LEADER_LOCATORS, "invalid_queue_locator_arg"),
}
# Those of classic queues that must be the same when one is declared again, in the order in which RabbitMQ compares
# them; ours follow.
COMPARED_ARGUMENTS = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-queue-master-locator",
    "x-delivery-limit",
    "x-retry-delays",
    "x-parking-lot",
    *check.DEDUPLICATION_CHECKS,
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-queue-leader-locator",
    "x-dead-letter-strategy",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-initial-cluster-size",
)


class QueueType(Protocol):
    name: str
    # The name that stands in RabbitMQ's texts.
    module: str
    arguments: frozenset[str]
    # Those that must be the same when a queue is declared again, in RabbitMQ's order.
    compared: tuple[str, ...]
    # Whether the broker may give it a name, and whether it cannot be without a disk.
    server_named: bool
    needs_disk: bool

    def validate(self, record: QueueRecord, what: str) -> None:
        """Raises what RabbitMQ would; `what` is the queue in a text, such as: queue 'q' in vhost '/'."""

    def create(
        self, record: QueueRecord, queue_storage: QueueStorage | None = None, office: Office | None = None
    ) -> Queue:
        """A live queue; without a stock it keeps everything in memory and nothing survives, or it cannot be."""

    def govern(self, queue: Any, arguments: Arguments, since_ms: int = 0) -> None:
        """These arguments are in force: those it was declared with, and what policies add. A time to live counts for
        what arrived since that moment."""


class QueueStorage(Protocol):
    """What the store gives to queues."""

    # core.log.paging_context.PagingContext and core.log.journal.Journal
    paging_context: Any
    journal: Any
    # storage.streams.Streams
    streams: Any

    def queue_log(self, queue_id: int) -> Any:
        """A core.log.queue_log.QueueLog for a queue that survives."""


def check_dead_letter_exchange(arguments: Arguments, what: str) -> None:
    """Comes first of all in RabbitMQ, before the queue has a type."""
    value = arguments.get("x-dead-letter-exchange", "")
    if not isinstance(value, str):
        raise SoftError(406, f"invalid type '{shown_type(value)}' for arg 'x-dead-letter-exchange' in {what}")


def validate_arguments(queue_type: QueueType, record: QueueRecord, what: str) -> None:
    """Known arguments have the right type and range, and the queue's type takes them."""
    arguments = record.arguments
    for name in [name for name in ARGUMENT_CHECKS if name in arguments and name in queue_type.arguments]:
        reason = ARGUMENT_CHECKS[name](arguments[name])
        if reason is None and name == "x-dead-letter-routing-key" and "x-dead-letter-exchange" not in arguments:
            reason = "routing_key_but_no_dlx_defined"
        if reason is not None:
            raise SoftError(406, f"invalid arg '{name}' for {what}: {reason}")
    for name in arguments:
        if name in ARGUMENT_CHECKS and name not in queue_type.arguments:
            raise SoftError(406, f"invalid arg '{name}' for {what} of queue type {queue_type.module}")
