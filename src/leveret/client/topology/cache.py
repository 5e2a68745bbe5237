"""What this client has declared, with its exact parameters, in the order in which it is declared again.

Knows what goes with what: a queue takes its bindings along, and an exchange or queue that deletes itself is forgotten
with its last binding or consumer, because the broker forgets it then, too. Never talks to a broker; called by the
manager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from leveret.client.errors import ClientError
from leveret.client.topology.handle import QueueHandle
from leveret.client.topology.methods import Thing
from leveret.client.topology.records import Binding, Exchange, Queue

__all__ = ["Cache"]

Key = tuple[Any, ...]


class Cache:
    def __init__(self) -> None:
        self._exchanges: dict[str, Exchange] = {}
        # Named queues by name. Those that the broker named have a name for now, so they are found by looking.
        self._named: dict[str, QueueHandle] = {}
        self._unnamed: list[QueueHandle] = []
        self._bindings: dict[Key, Binding] = {}
        # Ids of things that may be gone from the broker although they are known here.
        self._doubted: set[Key] = set()
        # What made the broker end the connection when it was declared again, and how it said so.
        self._breakers: dict[Key, ClientError] = {}
        # Whether the last recovery ended the connection, and nobody knows by what.
        self.is_careful = False
        # How many consumers of this client a queue has that deletes itself after the last.
        self._consumers: dict[QueueHandle, int] = {}

    # ---- looking

    @property
    def exchanges(self) -> list[Exchange]:
        return list(self._exchanges.values())

    @property
    def handles(self) -> list[QueueHandle]:
        return [*self._named.values(), *self._unnamed]

    @property
    def bindings(self) -> list[Binding]:
        return list(self._bindings.values())

    def handle(self, queue: str | Queue | QueueHandle) -> QueueHandle | None:
        """The queue that has this name, or had it until the broker gave it another."""
        if isinstance(queue, QueueHandle):
            return queue if queue in self._unnamed or self._named.get(queue.name) is queue else None
        name = queue if isinstance(queue, str) else queue.name
        found = self._named.get(name)
        return found or next((handle for handle in self._unnamed if handle.knows(name)), None)

    def exchanges_of(self, binding: Binding) -> list[Exchange]:
        """The exchanges at its ends, as far as they were declared."""
        names = [binding.source, str(binding.destination)] if binding.to == "exchange" else [binding.source]
        return [self._exchanges[name] for name in names if name in self._exchanges]

    def has(self, thing: Thing) -> bool:
        """Whether exactly this was declared, and nobody doubts that it is still there."""
        if self._key(thing) in self._doubted:
            return False
        match thing:
            case Exchange():
                return _same(self._exchanges.get(thing.name), thing)
            case Queue():
                handle = self._named.get(thing.name)
                return handle is not None and _same(handle.queue, thing)
            case Binding():
                return self._key(thing) in self._bindings

    # ---- changing

    def add_exchange(self, exchange: Exchange) -> None:
        self._exchanges[exchange.name] = exchange
        self.trust(exchange)

    def add_queue(self, handle: QueueHandle) -> None:
        if handle.is_server_named:
            self._unnamed.append(handle)
        else:
            self._named[handle.name] = handle
            self.trust(handle.queue)

    def add_binding(self, binding: Binding) -> None:
        binding = self.referring(binding)
        self._bindings[self._key(binding)] = binding
        self.trust(binding)

    def referring(self, binding: Binding) -> Binding:
        """The binding as it is kept: with the handle in place of a name that the broker made up, and with the name of
        any other queue."""
        if binding.to != "queue":
            return binding
        destination = self.handle(binding.destination) or binding.destination
        if isinstance(destination, QueueHandle) and not destination.is_server_named:
            destination = destination.name
        return msgspec.structs.replace(binding, destination=destination)

    def doubt(self, thing: Thing) -> None:
        """Known, but perhaps gone from the broker: the next declare asks it again."""
        self._doubted.add(self._key(thing))

    def doubt_everything(self) -> None:
        everything: list[Thing] = [*self.exchanges, *(handle.queue for handle in self.handles), *self.bindings]
        self._doubted.update(self._key(thing) for thing in everything)

    def doubt_queue(self, handle: QueueHandle) -> None:
        """With the queue its bindings are gone."""
        self.doubt(handle.queue)
        for binding in self._bindings_of(handle, handle.name):
            self.doubt(binding)

    def trust(self, thing: Thing) -> None:
        """The broker said that it is there, or that it is gone and nothing of it needs to be remembered."""
        self._doubted.discard(self._key(thing))
        self._breakers.pop(self._key(thing), None)

    def blame(self, thing: Thing, error: ClientError) -> None:
        """Declaring it ended the connection, so it is not declared again until somebody asks for it."""
        self._breakers[self._key(thing)] = error
        self.doubt(thing)

    def breaker(self, thing: Thing) -> ClientError | None:
        return self._breakers.get(self._key(thing))

    def forget_exchange(self, name: str) -> None:
        exchange = self._exchanges.pop(name, None)
        if exchange is not None:
            self.trust(exchange)
        self._forget_bindings(
            [b for b in self._bindings.values() if b.source == name or (b.to == "exchange" and b.destination == name)]
        )

    def forget_queue(self, queue: str | QueueHandle) -> None:
        handle = self.handle(queue)
        name = handle.name if handle is not None else str(queue)
        if handle is not None:
            self.trust(handle.queue)
            self._consumers.pop(handle, None)
            if handle.is_server_named:
                self._unnamed.remove(handle)
            else:
                del self._named[name]
        self._forget_bindings(self._bindings_of(handle, name))

    def forget_binding(self, binding: Binding) -> None:
        self._forget_bindings([self.referring(binding)])

    def consumer_added(self, handle: QueueHandle) -> None:
        if handle.queue.auto_delete:
            self._consumers[handle] = self._consumers.get(handle, 0) + 1

    def consumer_removed(self, handle: QueueHandle) -> None:
        if handle not in self._consumers:
            return
        self._consumers[handle] -= 1
        if self._consumers[handle] == 0:
            self.forget_queue(handle)

    def _forget_bindings(self, bindings: list[Binding]) -> None:
        for binding in bindings:
            self.trust(binding)
            if self._bindings.pop(self._key(binding), None) is None:
                continue
            source = self._exchanges.get(binding.source)
            if source is not None and source.auto_delete and not self._leads_on(source.name):
                self.forget_exchange(source.name)

    def _bindings_of(self, handle: QueueHandle | None, name: str) -> list[Binding]:
        return [
            binding
            for binding in self._bindings.values()
            if binding.to == "queue" and (binding.destination is handle or binding.destination == name)
        ]

    def _leads_on(self, exchange: str) -> bool:
        return any(binding.source == exchange for binding in self._bindings.values())

    def _key(self, thing: Thing) -> Key:
        match thing:
            case Exchange():
                return ("exchange", thing.name)
            case Queue():
                return ("queue", thing.name)
            case Binding():
                binding = self.referring(thing)
                where = (binding.source, binding.to, binding.destination, binding.routing_key)
                return ("binding", *where, *_frozen(binding.arguments))


def _same(known: Exchange | Queue | None, thing: Exchange | Queue) -> bool:
    """Equal, and their arguments of the same types: True is not 1 on the wire."""
    return known == thing and known is not None and _frozen(known.arguments) == _frozen(thing.arguments)


def _frozen(value: Any) -> tuple[Any, ...]:
    """The value as something that can be compared and hashed with its types."""

    def parts() -> Iterator[Any]:
        if isinstance(value, dict):
            for name in sorted(value):
                yield (name, _frozen(value[name]))
        else:
            for item in value:
                yield _frozen(item)

    if isinstance(value, dict | list):
        return (type(value).__name__, *parts())
    return ("bool" if isinstance(value, bool) else "", value)
