"""Is what is declared again what is there? In RabbitMQ's words if not.

For clients that declare, and for definitions that are imported over what exists."""

from __future__ import annotations

from leveret.catalog.arguments import DEDUPLICATION_CHECKS, assert_same_argument, assert_same_property
from leveret.catalog.policies import MESSAGE_ID_ARGUMENT
from leveret.catalog.records import Arguments, ExchangeRecord, QueueRecord
from leveret.queues.registry import DEFAULT, queue_type
from leveret.routing.headers import IGNORE_X

COMPARED_EXCHANGE_ARGUMENTS = ("alternate-exchange", "x-delayed-type", *DEDUPLICATION_CHECKS)
# RabbitMQ's clients do not know these, and declare again what an operator or a migration has given them.
COMPARED_IF_GIVEN = (IGNORE_X, MESSAGE_ID_ARGUMENT)


def assert_same_queue(record: QueueRecord, what: str, durable: bool, auto_delete: bool, arguments: Arguments) -> None:
    """Raises SoftError 406; `what` is the queue in a text, such as: queue 'q' in vhost '/'."""
    assert_same_property("durable", what, record.durable, durable)
    assert_same_property("auto_delete", what, record.auto_delete, auto_delete)
    for name in queue_type(record.kind).compared:
        if name == "x-queue-type" and "x-queue-type" not in arguments and record.kind == DEFAULT:
            # Not asking for a type takes a classic queue as it is.
            continue
        if name == "x-queue-type" and "x-queue-type" not in record.arguments:
            if arguments[name] == record.kind:
                continue
        assert_same_argument(name, what, record.arguments, arguments)


def assert_same_exchange(current: ExchangeRecord, what: str, received: ExchangeRecord) -> None:
    assert_same_property("type", what, current.kind, received.kind)
    assert_same_property("durable", what, current.durable, received.durable)
    assert_same_property("auto_delete", what, current.auto_delete, received.auto_delete)
    assert_same_property("internal", what, current.internal, received.internal)
    for name in COMPARED_EXCHANGE_ARGUMENTS:
        assert_same_argument(name, what, current.arguments, received.arguments)
    for name in COMPARED_IF_GIVEN:
        if name in received.arguments:
            assert_same_argument(name, what, current.arguments, received.arguments)
