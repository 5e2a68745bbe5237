"""A virtual host alive: the exchanges and queues that messages run through, kept in step with the catalog.

Changes only by the catalog's changes. Names are octets here, because that is what comes with a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from leveret.broker.activity import Retired
from leveret.broker.connected import ConsumerInfo
from leveret.broker.copies import resolve_copies
from leveret.broker.exchanges import make_exchange
from leveret.broker.policy_application import PolicyApplication
from leveret.broker.queue_expiry import QueueExpiry
from leveret.catalog.commands import Added, Change
from leveret.catalog.policies import (
    ALTERNATE_EXCHANGE,
    MESSAGE_ID_ARGUMENT,
    PolicyBook,
    effective_exchange_arguments,
    effective_queue_arguments,
)
from leveret.catalog.records import Arguments, BindingRecord, ExchangeRecord, QueueRecord
from leveret.core.codec.message import Message
from leveret.core.codec.names import name_octets
from leveret.core.connection.reply import ReplyQueue
from leveret.core.connection.router import Exchange, NamesMatcher, Router
from leveret.core.connection.trace import Trace
from leveret.core.matching.matcher import Matcher
from leveret.core.queue.contract import Queue
from leveret.core.queue.office import Office
from leveret.queues.registry import queue_type
from leveret.routing.registry import exchange_type
from leveret.runtime.dice import Dice
from leveret.storage.store import Store

TTL = "x-message-ttl"


class ChannelTracer(Protocol):
    """Notes what the channels of a traced virtual host publish and deliver."""

    def trace(self, connection: str, channel: int, user: str) -> Trace: ...

    def close(self) -> None: ...


class CancelledConsumer(Protocol):
    """The control-plane side of a channel, which tells its client that a consumer has lost its queue."""

    def consumer_lost(self, tag: bytes) -> None: ...


class StreamWatcher(Protocol):
    """Somebody who reads or writes a stream without being one of its subscribers: a stream client's connection."""

    def stream_deleted(self, name: str) -> None: ...

    def consumers(self) -> Iterator[ConsumerInfo]:
        """What it has there, and elsewhere."""


class LiveVhost:
    def __init__(
        self,
        name: str,
        pick: Callable[[int], int],
        store: Store | None = None,
        policies: PolicyBook | None = None,
        office: Office | None = None,
        queue_expiry: QueueExpiry | None = None,
        retired: Retired | None = None,
        governed: Callable[[], None] = lambda: None,
        exchange_defaults: Arguments | None = None,
        new_uuid: Callable[[], str] | None = None,
    ) -> None:
        """`governed` is called when queues have got what changed policies say. `exchange_defaults` are arguments that
        exchanges route by which were declared without them."""
        self.name = name
        # The catalog's own; read here, never changed.
        self.policies = PolicyBook() if policies is None else policies
        self._pick = pick
        # For messages without an id, where an exchange gives them one.
        self.new_uuid = Dice().uuid if new_uuid is None else new_uuid
        self._exchange_defaults: Arguments = exchange_defaults or {}
        self._store = store
        self._office = Office() if office is None else office
        # Queues that go when nobody uses them.
        self.queue_expiry = QueueExpiry.without_clock() if queue_expiry is None else queue_expiry
        # Gets what queues have counted when they go.
        self._retired = Retired() if retired is None else retired
        self.exchanges: dict[bytes, Exchange] = {}
        self.queues: dict[bytes, Queue] = {}
        # Direct reply-to addresses by their full name.
        self.replies: dict[bytes, ReplyQueue] = {}
        self.router = Router(self.exchanges, self.queues, self._office.meter)
        # Exclusive queues by the connection they belong to.
        self.owned: dict[int, set[str]] = {}
        self.policy_application = PolicyApplication(self._office, self._govern_any, governed)
        # While it is traced.
        self.firehose: ChannelTracer | None = None
        # Who is told when a stream is gone, by its name.
        self.watchers: dict[str, dict[StreamWatcher, bool]] = {}

    def reflect(self, change: Change) -> None:
        record = change.record
        added = isinstance(change, Added)
        if isinstance(record, BindingRecord):
            self._bind(record) if added else self._unbind(record)
        elif isinstance(record, QueueRecord):
            self._add_queue(record) if added else self._remove_queue(record)
        elif isinstance(record, ExchangeRecord):
            self._add_exchange(record) if added else self._remove_exchange(record)
        self.router.changed()

    # ---- policies

    def policies_changed(self, replayed: bool = False) -> None:
        """Brings everything that policies can apply to in step with them, in slices if that takes long."""
        # What arrived in this very millisecond was there before.
        self._office.now += 1
        things = (*self.exchanges.values(), *self.queues.values())
        self.policy_application.begin(things, 0 if replayed else self._office.now, at_once=replayed)

    def _govern_any(self, thing: Queue | Exchange, since_ms: int) -> None:
        if not isinstance(thing, Exchange):
            self._govern(thing, since_ms)
            return
        self._govern_exchange(thing)

    def _govern_exchange(self, exchange: Exchange) -> None:
        record: ExchangeRecord = exchange.record
        arguments = effective_exchange_arguments(record, *self.policies.of_exchange(record))
        name = arguments.get(ALTERNATE_EXCHANGE)
        alternate = None if name is None else name_octets(name)
        if alternate != exchange.alternate:
            exchange.alternate = alternate
            self.router.changed()
        exchange.gives_ids = arguments.get(MESSAGE_ID_ARGUMENT) == "uuid"

    def _govern(self, queue: Queue, since_ms: int = 0) -> None:
        """`since_ms` is when policies changed; without it, for a new queue, what applies has done so all the time."""
        record: QueueRecord = queue.record
        applied = self.policies.of_queue(record)
        arguments = effective_queue_arguments(record, *applied)
        if since_ms == 0 and arguments.get(TTL) != record.arguments.get(TTL):
            # At a start there may be messages that are older than the policy.
            since_ms = max(policy.set_at_ms for policy in applied if policy is not None)
        queue_type(record.kind).govern(queue, arguments, since_ms)
        self.queue_expiry.put(queue, arguments.get("x-expires"))

    # ---- exchanges

    def _add_exchange(self, record: ExchangeRecord) -> None:
        if record.name == "":
            matcher: Matcher = NamesMatcher(self.queues, self.replies)
        else:
            matcher = exchange_type(record.kind).matcher(self.routing_arguments(record), self._pick)
        exchange = make_exchange(record, matcher, self._store, self._office, self._route_due)
        self._govern_exchange(exchange)
        self.exchanges[exchange.name] = exchange
        if self._store is not None and record.id:
            assert exchange.exchange_store is not None
            self._store.add_queue(record.id, exchange.exchange_store)

    def routing_arguments(self, record: ExchangeRecord) -> Arguments:
        """What an exchange routes by: its arguments, and the node's defaults for those that it has not."""
        return {**self._exchange_defaults, **record.arguments}

    def _route_due(self, exchange: Exchange, message: Message, again: bool) -> None:
        """A message of a delayed exchange goes where it would have gone at once; perhaps it did so before a crash."""
        properties = message.properties
        if properties.has_cc:
            targets = resolve_copies(self.router, exchange, message.routing_key, properties)
        else:
            targets = self.router.resolve(exchange, [message.routing_key], properties)
        if again:
            self._office.deliver_again(message, targets)
        else:
            self._office.deliver(message, targets)

    def _remove_exchange(self, record: ExchangeRecord) -> None:
        exchange = self.exchanges.pop(name_octets(record.name))
        exchange.deleted = True
        if exchange.exchange_store is not None:
            exchange.exchange_store.close()
            if self._store is not None and record.id:
                self._store.remove_queue(record.id)

    # ---- queues

    def _add_queue(self, record: QueueRecord) -> None:
        queue = queue_type(record.kind).create(record, self._store, self._office)
        self.queues[name_octets(record.name)] = queue
        if record.arguments or len(self.policies):
            self._govern(queue)
        if self._store is not None and queue.queue_log is not None:
            self._store.add_queue(record.id, queue)
        if record.owner:
            self.owned.setdefault(record.owner, set()).add(record.name)

    def _remove_queue(self, record: QueueRecord) -> None:
        queue = self.queues.pop(name_octets(record.name))
        if record.owner:
            owned = self.owned[record.owner]
            owned.discard(record.name)
            if not owned:
                del self.owned[record.owner]
        if self._store is not None and record.id:
            self._store.remove_queue(record.id)
        self.queue_expiry.remove(queue)
        consumers = list(queue.subscribers or ())
        queue.close()
        for consumer in consumers:
            consumer.channel.channel_session.consumer_lost(consumer.tag)
        for watcher in self.watchers.pop(record.name, ()):
            watcher.stream_deleted(record.name)
        self._retired.add_queue(queue)

    def watch_stream(self, name: str, watcher: StreamWatcher) -> None:
        self.watchers.setdefault(name, {})[watcher] = True

    def unwatch_stream(self, name: str, watcher: StreamWatcher) -> None:
        watchers = self.watchers.get(name, {})
        watchers.pop(watcher, None)
        if not watchers:
            self.watchers.pop(name, None)

    # ---- direct reply-to

    def add_reply(self, name: bytes) -> ReplyQueue:
        reply = self.replies[name] = ReplyQueue(name)
        self.router.changed()
        return reply

    def remove_reply(self, name: bytes) -> None:
        self.replies.pop(name).close()
        self.router.changed()

    # ---- bindings

    def _bind(self, record: BindingRecord) -> None:
        source = self.exchanges[name_octets(record.source)]
        source.bind(name_octets(record.routing_key), record.arguments, self._destination(record))

    def _unbind(self, record: BindingRecord) -> None:
        source = self.exchanges[name_octets(record.source)]
        source.unbind(name_octets(record.routing_key), record.arguments, self._destination(record))

    def _destination(self, record: BindingRecord) -> Queue | Exchange:
        if record.to_queue:
            return self.queues[name_octets(record.destination)]
        return self.exchanges[name_octets(record.destination)]
