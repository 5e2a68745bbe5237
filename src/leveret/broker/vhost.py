"""A virtual host alive: the exchanges and queues that messages run through, kept in step with the catalog.

Changes only by the catalog's changes. Names are octets here, because that is what comes with a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from leveret.broker.connected import SeenConsumer
from leveret.broker.copies import resolve_copies
from leveret.broker.exchanges import make_exchange
from leveret.broker.leases import Leases
from leveret.broker.statistics.activity import Retired
from leveret.catalog.commands import Added, Change
from leveret.catalog.policies import PolicyBook, effective_exchange_arguments, effective_queue_arguments
from leveret.catalog.records import BindingRecord, ExchangeRecord, QueueRecord
from leveret.core.contract import Queue
from leveret.core.matcher import Matcher
from leveret.core.message import Message
from leveret.core.office import Office
from leveret.core.reply import ReplyQueue
from leveret.core.router import Exchange, NamesMatcher, Router
from leveret.queues.registry import queue_type
from leveret.routing.registry import exchange_type
from leveret.storage.store import Store

TTL = "x-message-ttl"


def octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


class CancelledConsumer(Protocol):
    """The control-plane side of a channel, which tells its client that a consumer has lost its queue."""

    def consumer_lost(self, tag: bytes) -> None: ...


class StreamWatcher(Protocol):
    """Somebody who reads or writes a stream without being one of its subscribers: a stream client's connection."""

    def stream_deleted(self, name: str) -> None: ...

    def consumers(self) -> Iterator[SeenConsumer]:
        """What it has there, and elsewhere."""


class LiveVhost:
    def __init__(
        self,
        name: str,
        pick: Callable[[int], int],
        store: Store | None = None,
        policies: PolicyBook | None = None,
        office: Office | None = None,
        leases: Leases | None = None,
        retired: Retired | None = None,
    ) -> None:
        self.name = name
        # The catalog's own; read here, never changed.
        self.policies = PolicyBook() if policies is None else policies
        self._pick = pick
        self._store = store
        self._office = Office() if office is None else office
        # Queues that go when nobody uses them.
        self.leases = Leases.without_clock() if leases is None else leases
        # Gets what queues have counted when they go.
        self._retired = Retired() if retired is None else retired
        self.exchanges: dict[bytes, Exchange] = {}
        self.queues: dict[bytes, Queue] = {}
        # Direct reply-to addresses by their full name.
        self.replies: dict[bytes, ReplyQueue] = {}
        self.router = Router(self.exchanges, self.queues)
        # Exclusive queues by the connection they belong to.
        self.owned: dict[int, set[str]] = {}
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
        """Brings everything that policies can apply to in step with them, in one pass."""
        # What arrived in this very millisecond was there before.
        self._office.now += 1
        for queue in self.queues.values():
            self._govern(queue, 0 if replayed else self._office.now)
        for exchange in self.exchanges.values():
            exchange.alternate = self._alternate(exchange.record)
        self.router.changed()

    def _govern(self, queue: Queue, since_ms: int = 0) -> None:
        """`since_ms` is when policies changed; without it, for a new queue, what applies has done so all the time."""
        record: QueueRecord = queue.record
        applied = self.policies.of_queue(record)
        arguments = effective_queue_arguments(record, *applied)
        if since_ms == 0 and arguments.get(TTL) != record.arguments.get(TTL):
            # At a start there may be messages that are older than the policy.
            since_ms = max(policy.set_at_ms for policy in applied if policy is not None)
        queue_type(record.kind).govern(queue, arguments, since_ms)
        self.leases.put(queue, arguments.get("x-expires"))

    # ---- exchanges

    def _add_exchange(self, record: ExchangeRecord) -> None:
        if record.name == "":
            matcher: Matcher = NamesMatcher(self.queues, self.replies)
        else:
            matcher = exchange_type(record.kind).matcher(record.arguments, self._pick)
        exchange = make_exchange(record, matcher, self._alternate(record), self._store, self._office, self._route_due)
        self.exchanges[exchange.name] = exchange
        if self._store is not None and record.id:
            self._store.add_queue(record.id, exchange.keeper)

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

    def _alternate(self, record: ExchangeRecord) -> bytes | None:
        arguments = effective_exchange_arguments(record, *self.policies.of_exchange(record))
        alternate = arguments.get("alternate-exchange")
        return None if alternate is None else octets(alternate)

    def _remove_exchange(self, record: ExchangeRecord) -> None:
        exchange = self.exchanges.pop(octets(record.name))
        if exchange.keeper is not None:
            exchange.keeper.close()
            if self._store is not None and record.id:
                self._store.remove_queue(record.id)

    # ---- queues

    def _add_queue(self, record: QueueRecord) -> None:
        queue = queue_type(record.kind).create(record, self._store, self._office)
        self.queues[octets(record.name)] = queue
        if record.arguments or len(self.policies):
            self._govern(queue)
        if self._store is not None and queue.ledger is not None:
            self._store.add_queue(record.id, queue)
        if record.owner:
            self.owned.setdefault(record.owner, set()).add(record.name)

    def _remove_queue(self, record: QueueRecord) -> None:
        queue = self.queues.pop(octets(record.name))
        if record.owner:
            owned = self.owned[record.owner]
            owned.discard(record.name)
            if not owned:
                del self.owned[record.owner]
        if self._store is not None and record.id:
            self._store.remove_queue(record.id)
        self.leases.remove(queue)
        consumers = list(queue.subscribers or ())
        queue.close()
        for consumer in consumers:
            consumer.channel.desk.consumer_lost(consumer.tag)
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
        source = self.exchanges[octets(record.source)]
        source.bind(octets(record.routing_key), record.arguments, self._destination(record))

    def _unbind(self, record: BindingRecord) -> None:
        source = self.exchanges[octets(record.source)]
        source.unbind(octets(record.routing_key), record.arguments, self._destination(record))

    def _destination(self, record: BindingRecord) -> Queue | Exchange:
        if record.to_queue:
            return self.queues[octets(record.destination)]
        return self.exchanges[octets(record.destination)]
