"""A virtual host alive: the exchanges and queues that messages run through, kept in step with the catalog.

Changes only by the catalog's changes. Names are octets here, because that is what comes with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from leveret.catalog.commands import Added, Change
from leveret.catalog.policies import PolicyBook, effective_exchange_arguments, effective_queue_arguments
from leveret.catalog.records import BindingRecord, ExchangeRecord, QueueRecord
from leveret.core.contract import Queue
from leveret.core.matcher import Matcher
from leveret.core.reply import ReplyQueue
from leveret.core.router import Exchange, NamesMatcher, Router
from leveret.queues.registry import queue_type
from leveret.routing.registry import exchange_type
from leveret.storage.store import Store


def octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


class CancelledConsumer(Protocol):
    """The control-plane side of a channel, which tells its client that a consumer has lost its queue."""

    def consumer_lost(self, tag: bytes) -> None: ...


class LiveVhost:
    def __init__(
        self,
        name: str,
        pick: Callable[[int], int],
        store: Store | None = None,
        policies: PolicyBook | None = None,
    ) -> None:
        self.name = name
        # The catalog's own; read here, never changed.
        self.policies = PolicyBook() if policies is None else policies
        self._pick = pick
        self._store = store
        self.exchanges: dict[bytes, Exchange] = {}
        self.queues: dict[bytes, Queue] = {}
        # Direct reply-to addresses by their full name.
        self.replies: dict[bytes, ReplyQueue] = {}
        self.router = Router(self.exchanges, self.queues)
        # Exclusive queues by the connection they belong to.
        self.owned: dict[int, set[str]] = {}

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

    def policies_changed(self) -> None:
        """Brings everything that policies can apply to in step with them, in one pass."""
        for queue in self.queues.values():
            record: QueueRecord = queue.record
            arguments = effective_queue_arguments(record, *self.policies.of_queue(record))
            queue_type(record.kind).govern(queue, arguments)  # type: ignore[attr-defined]
        for exchange in self.exchanges.values():
            exchange.alternate = self._alternate(exchange.record)
        self.router.changed()

    # ---- exchanges

    def _add_exchange(self, record: ExchangeRecord) -> None:
        if record.name == "":
            matcher: Matcher = NamesMatcher(self.queues, self.replies)
        else:
            matcher = exchange_type(record.kind).matcher(record.arguments, self._pick)
        self.exchanges[octets(record.name)] = Exchange(
            octets(record.name), matcher, record.internal, self._alternate(record), record
        )

    def _alternate(self, record: ExchangeRecord) -> bytes | None:
        arguments = effective_exchange_arguments(record, *self.policies.of_exchange(record))
        alternate = arguments.get("alternate-exchange")
        return None if alternate is None else octets(alternate)

    def _remove_exchange(self, record: ExchangeRecord) -> None:
        del self.exchanges[octets(record.name)]

    # ---- queues

    def _add_queue(self, record: QueueRecord) -> None:
        queue = queue_type(record.kind).create(record, self._store)
        self.queues[octets(record.name)] = queue
        if self._store is not None and record.id:
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
        consumers = list(queue.subscribers or ())
        queue.close()
        for consumer in consumers:
            consumer.channel.desk.consumer_lost(consumer.tag)

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
