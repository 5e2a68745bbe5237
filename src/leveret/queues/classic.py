"""The classic queue type: one node, one order, any number of consumers."""

from __future__ import annotations

from leveret.catalog import arguments as check
from leveret.catalog.records import Arguments, QueueRecord
from leveret.core.codec.names import name_octets
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.queue.office import Office
from leveret.queues.dedup import govern_window, is_wanted, make_window
from leveret.queues.queue_type import COMPARED_ARGUMENTS, QueueStorage, validate_arguments
from leveret.queues.rules import rules_from


class Classic:
    name = "classic"
    module = "rabbit_classic_queue"
    server_named = True
    needs_disk = False
    compared = COMPARED_ARGUMENTS
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
            "x-delivery-limit",
            "x-consumer-timeout",
            "x-retry-delays",
            "x-parking-lot",
            *check.DEDUPLICATION_CHECKS,
        )
    )

    def validate(self, record: QueueRecord, what: str) -> None:
        validate_arguments(self, record, what)

    def create(
        self, record: QueueRecord, queue_storage: QueueStorage | None = None, office: Office | None = None
    ) -> Queue:
        arguments = record.arguments
        return ClassicQueue(
            name_octets(record.name),
            record,
            single_active=arguments.get("x-single-active-consumer", False),
            paging_context=None if queue_storage is None else queue_storage.paging_context,
            queue_log=queue_storage.queue_log(record.id) if queue_storage is not None and record.id else None,
            lazy=queue_storage is not None and arguments.get("x-queue-mode") == "lazy",
            office=office,
            priority_max=arguments.get("x-max-priority", 0),
            window=make_window(arguments, record.id, queue_storage) if is_wanted(arguments) else None,
        )

    def govern(self, queue: ClassicQueue, arguments: Arguments, since_ms: int = 0) -> None:
        queue.ack_timeout_ms = arguments.get("x-consumer-timeout", -1)
        queue.set_lazy(arguments.get("x-queue-mode") == "lazy")
        rules = rules_from(arguments)
        # Most queues have none, and may go on without looking at every message.
        if govern_window(queue, arguments) or not rules.plain or not queue.rules.plain:
            queue.set_rules(rules, since_ms)
