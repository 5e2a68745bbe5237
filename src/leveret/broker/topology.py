"""Declaring, deleting and binding: RabbitMQ's rules for what is allowed, turned into commands for the catalog.

Each function checks, raises RabbitMQ's error, or applies a command. Who asks comes in as a Requester."""

from __future__ import annotations

from typing import Protocol

import msgspec

from leveret.auth.access import CONFIGURE, READ, WRITE, Access
from leveret.auth.audit import Actor
from leveret.broker.broker import Broker
from leveret.broker.equivalence import assert_same_exchange, assert_same_queue
from leveret.broker.exchanges import keeps_something
from leveret.broker.forwarding import check_forwarding
from leveret.broker.reserved_names import RESERVED_PREFIX, refuse_reserved_queue
from leveret.broker.vhost import LiveVhost
from leveret.catalog import commands
from leveret.catalog.records import Arguments, BindingRecord, ExchangeRecord, QueueRecord
from leveret.core.codec.names import name_octets
from leveret.core.queue.contract import Queue
from leveret.errors import HardError, SoftError
from leveret.queues.queue_type import check_dead_letter_exchange
from leveret.queues.registry import DEFAULT, kind_from_arguments, known_kind, queue_type
from leveret.routing.registry import exchange_type, routing_type

REPLY_TO_PREFIX = "amq.rabbitmq.reply-to"
# RabbitMQ's definitions say undefined.
NO_DEFAULT_TYPE = ("", "undefined", DEFAULT)
DEFAULT_EXCHANGE_TEXT = "operation not permitted on the default exchange"


class Requester(Protocol):
    """Whoever asks: a channel, or later an HTTP request."""

    @property
    def vhost(self) -> LiveVhost: ...
    @property
    def access(self) -> Access: ...
    @property
    def connection_id(self) -> int: ...
    @property
    def actor(self) -> Actor | None:
        """For the audit log; None if what he does is noted elsewhere."""


def queue_text(vhost: str, name: str) -> str:
    return f"queue '{name}' in vhost '{vhost}'"


def exchange_text(vhost: str, name: str) -> str:
    return f"exchange '{name}' in vhost '{vhost}'"


def strip_line_ends(name: str) -> str:
    """RabbitMQ drops line ends from names that are declared or deleted, so that logs stay one line an event."""
    return name.replace("\r", "").replace("\n", "")


def check_owner(who: Requester, record: QueueRecord) -> None:
    """Raises SoftError if the queue belongs to another connection alone. Requests over HTTP belong to none."""
    if record.owner not in (0, who.connection_id):
        raise SoftError(405, locked_text(who, record.name))


def locked_text(who: Requester, name: str) -> str:
    return (
        f"cannot obtain exclusive access to locked {queue_text(who.vhost.name, name)}. It could be originally "
        "declared on another connection or the exclusive property value does not match that of the original "
        "declaration."
    )


class Topology:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    # ---- queues

    def find_queue(self, who: Requester, name: str) -> Queue:
        """The live queue, if it exists and this connection may touch it."""
        queue: Queue | None = who.vhost.queues.get(name_octets(name))
        if queue is None:
            raise SoftError(404, f"no {queue_text(who.vhost.name, name)}")
        check_owner(who, queue.record)
        return queue

    def declare_queue(
        self, who: Requester, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Arguments
    ) -> Queue:
        vhost = who.vhost
        name = strip_line_ends(name)
        # What goes with its connection is not durable, whatever was asked for.
        durable = durable and not exclusive
        if durable and not auto_delete:
            arguments = self._with_default_type(vhost.name, arguments)
        if name == "":
            self._check_nameless(arguments)
            name = "amq.gen-" + self._broker.dice.name()
        elif name.startswith(RESERVED_PREFIX):
            who.access.check_queue(CONFIGURE, name)
            refuse_reserved_queue(name)
        who.access.check_queue(CONFIGURE, name)
        self._broker.churn.queues_declared += 1
        existing: Queue | None = vhost.queues.get(name_octets(name))
        what = queue_text(vhost.name, name)
        if existing is not None:
            self._assert_equivalent_queue(who, existing.record, what, durable, exclusive, auto_delete, arguments)
            return existing
        check_dead_letter_exchange(arguments, what)
        kind = kind_from_arguments(arguments, what)
        self._broker.limits.topology.check_queues(vhost.name, name, arguments)
        owner = who.connection_id if exclusive else 0
        queue_id, created_ms = self._broker.new_identity() if durable else (0, 0)
        record = QueueRecord(vhost.name, name, kind, durable, auto_delete, owner, arguments, queue_id, created_ms)
        queue_type(kind).validate(record, what)
        if queue_type(kind).needs_disk and self._broker.store is None:
            raise SoftError(406, f"{what} needs a data directory, and this broker has none")
        if "x-dead-letter-exchange" in arguments:
            who.access.check_queue(READ, name)
            who.access.check_exchange(WRITE, arguments["x-dead-letter-exchange"])
            check_forwarding(who, arguments["x-dead-letter-exchange"], arguments.get("x-dead-letter-routing-key"))
        if "x-parking-lot" in arguments:
            # Messages go there by the default exchange, and it is made if it is not there.
            who.access.check_queue(READ, name)
            who.access.check_exchange(WRITE, "")
            who.access.check_queue(CONFIGURE, arguments["x-parking-lot"])
            refuse_reserved_queue(arguments["x-parking-lot"])
        self._broker.apply(commands.DeclareQueue(record), who)
        created: Queue = vhost.queues[name_octets(name)]
        return created

    def _with_default_type(self, vhost: str, arguments: Arguments) -> Arguments:
        """Of a queue that any type can be: unless it asks for a type, that of the virtual host, if that has one."""
        default = self._broker.catalog.vhosts[vhost].default_queue_type
        if "x-queue-type" in arguments or default in NO_DEFAULT_TYPE:
            return arguments
        return {**arguments, "x-queue-type": default}

    @staticmethod
    def _check_nameless(arguments: Arguments) -> None:
        kind = known_kind(arguments.get("x-queue-type"))
        if kind is not None and not kind.server_named:
            raise SoftError(406, f"Cannot declare a server-named queue for type {kind.module}")

    def _assert_equivalent_queue(
        self,
        who: Requester,
        record: QueueRecord,
        what: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Arguments,
    ) -> None:
        if record.owner != (who.connection_id if exclusive else 0):
            raise SoftError(405, locked_text(who, record.name))
        assert_same_queue(record, what, durable, auto_delete, arguments)

    def delete_queue(self, who: Requester, name: str, if_unused: bool, if_empty: bool) -> int:
        """How many messages went with it; 0 if there was no such queue."""
        name = strip_line_ends(name)
        queue: Queue | None = who.vhost.queues.get(name_octets(name))
        if queue is None:
            who.access.check_queue(CONFIGURE, name)
            return 0
        who.access.check_queue(CONFIGURE, name)
        check_owner(who, queue.record)
        what = queue_text(who.vhost.name, name)
        if if_unused and queue.subscriber_count() > 0:
            raise SoftError(406, f"{what} in use")
        if if_empty and queue.ready_count() > 0:
            raise SoftError(406, f"{what} not empty")
        count: int = queue.ready_count()
        self._broker.apply(commands.DeleteQueue(who.vhost.name, name), who)
        return count

    def purge_queue(self, who: Requester, name: str) -> int:
        who.access.check_queue(READ, name)
        queue = self.find_queue(who, name)
        if (refusal := queue.refusal("queue.purge")) is not None:
            raise HardError(540, refusal)
        count: int = queue.purge()
        audit = self._broker.audit
        if audit is not None and queue.record.durable and (actor := who.actor) is not None:
            audit.note(actor, "queue.purge", {"vhost": who.vhost.name, "queue": name})
        return count

    def consumer_left(self, vhost: LiveVhost, queue: Queue) -> None:
        """A consumer was cancelled: an auto-delete queue goes with its last one."""
        record: QueueRecord = queue.record
        vhost.queue_expiry.renew(queue)
        if record.auto_delete and not queue.deleted and queue.subscriber_count() == 0:
            self._broker.apply(commands.DeleteQueue(vhost.name, record.name))

    def connection_left(self, vhost: LiveVhost, connection_id: int) -> None:
        """Exclusive queues go with their connection."""
        for name in sorted(vhost.owned.get(connection_id, ())):
            self._broker.apply(commands.DeleteQueue(vhost.name, name))

    # ---- exchanges

    def check_exchange_exists(self, who: Requester, name: str) -> None:
        if name_octets(name) not in who.vhost.exchanges:
            raise SoftError(404, f"no {exchange_text(who.vhost.name, name)}")

    def declare_exchange_passively(self, who: Requester, name: str) -> None:
        name = strip_line_ends(name)
        self._refuse_default(name)
        self.check_exchange_exists(who, name)

    def declare_exchange(self, who: Requester, record: ExchangeRecord) -> None:
        self._refuse_default(record.name)
        if record.kind == "":
            raise HardError(503, "invalid exchange type ''")
        kind = exchange_type(record.kind)
        who.access.check_exchange(CONFIGURE, record.name)
        live = who.vhost.exchanges.get(name_octets(record.name))
        what = exchange_text(record.vhost, record.name)
        if live is not None:
            assert_same_exchange(live.record, what, record)
            return
        if record.name.startswith(RESERVED_PREFIX):
            raise SoftError(403, f"exchange name '{record.name}' contains reserved prefix '{RESERVED_PREFIX}*'")
        kind.validate_arguments(record.arguments, what)
        self._broker.limits.topology.check_exchange(record.vhost, record.name, record.arguments)
        if "alternate-exchange" in record.arguments:
            who.access.check_exchange(READ, record.name)
            who.access.check_exchange(WRITE, record.arguments["alternate-exchange"])
            check_forwarding(who, record.arguments["alternate-exchange"], None)
        if record.durable and keeps_something(record):
            record = msgspec.structs.replace(record, id=self._broker.new_queue_id())
        self._broker.apply(commands.DeclareExchange(record), who)

    def delete_exchange(self, who: Requester, name: str, if_unused: bool) -> None:
        name = strip_line_ends(name)
        self._refuse_default(name)
        what = exchange_text(who.vhost.name, name)
        if name.startswith(RESERVED_PREFIX):
            raise SoftError(403, f"deletion of system {what} not allowed")
        who.access.check_exchange(CONFIGURE, name)
        topology = self._broker.catalog.topologies[who.vhost.name]
        if if_unused and name in topology.bindings_from:
            raise SoftError(406, f"{what} in use")
        self._broker.apply(commands.DeleteExchange(who.vhost.name, name), who)

    def _refuse_default(self, name: str) -> None:
        if name == "":
            raise SoftError(403, DEFAULT_EXCHANGE_TEXT)

    # ---- bindings

    def bind(self, who: Requester, binding: BindingRecord) -> None:
        self._check_binding(who, binding)
        self.check_exchange_exists(who, binding.source)
        if binding.to_queue:
            self.find_queue(who, binding.destination)
        else:
            self.check_exchange_exists(who, binding.destination)
        source = who.vhost.exchanges[name_octets(binding.source)]
        routing_type(source.record).validate_binding(binding.routing_key, binding.arguments)
        if not binding.to_queue:
            check_forwarding(who, binding.destination, _only_key(source.record, binding.routing_key))
        if self._broker.catalog.topologies[binding.vhost].find_binding(binding) is None:
            self._broker.limits.topology.check_bindings(binding.vhost, binding.arguments)
        self._broker.apply(commands.Bind(binding), who)

    def unbind(self, who: Requester, binding: BindingRecord) -> None:
        """Undoing what is not there is no error."""
        self._check_binding(who, binding)
        queue = who.vhost.queues.get(name_octets(binding.destination)) if binding.to_queue else None
        if queue is not None:
            check_owner(who, queue.record)
        self._broker.apply(commands.Unbind(binding), who)

    def _check_binding(self, who: Requester, binding: BindingRecord) -> None:
        """Binding changes what arrives at the destination and reads from the source."""
        if binding.source == "" or (binding.destination == "" and not binding.to_queue):
            raise SoftError(403, DEFAULT_EXCHANGE_TEXT)
        if binding.to_queue:
            who.access.check_queue(WRITE, binding.destination)
        else:
            who.access.check_exchange(WRITE, binding.destination)
        who.access.check_exchange(READ, binding.source)
        source = who.vhost.exchanges.get(name_octets(binding.source))
        if source is not None:
            who.access.check_topic(READ, source.record, binding.routing_key)


def _only_key(source: ExchangeRecord, routing_key: str) -> str | None:
    """The one key that messages have which pass a binding from this exchange; None if there may be others."""
    kind = routing_type(source).name
    if kind == "direct" or (kind == "topic" and not {"*", "#"} & set(routing_key.split("."))):
        return routing_key
    return None
