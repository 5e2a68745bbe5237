"""The exchanges, queues and bindings of one virtual host, with what follows from each change.

A pure machine: deleting a queue or an exchange takes its bindings along, and an auto-delete exchange goes with the last
binding from it. Called by the catalog only."""

from __future__ import annotations

from leveret.catalog.argument_size import argument_bytes
from leveret.catalog.commands import Added, Change, Removed
from leveret.catalog.records import Arguments, BindingRecord, ExchangeRecord, QueueRecord
from leveret.core.codec.tables import encode_table

# (source, to_queue, destination, routing key, arguments as octets)
BindingKey = tuple[str, bool, str, str, bytes]
Counted = ExchangeRecord | QueueRecord | BindingRecord


def binding_key(binding: BindingRecord) -> BindingKey:
    return (
        binding.source,
        binding.to_queue,
        binding.destination,
        binding.routing_key,
        _arguments_key(binding.arguments),
    )


def _arguments_key(arguments: Arguments) -> bytes:
    if not arguments:
        return b""
    return encode_table({name: arguments[name] for name in sorted(arguments)})


class Topology:
    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeRecord] = {}
        self.queues: dict[str, QueueRecord] = {}
        # By source exchange, and by destination as (to_queue, name). Every binding stands in both.
        self.bindings_from: dict[str, dict[BindingKey, BindingRecord]] = {}
        self.bindings_to: dict[tuple[bool, str], dict[BindingKey, BindingRecord]] = {}
        # For limits: all bindings, and what the arguments of everything here count for together.
        self.binding_count = 0
        self.argument_bytes = 0

    def find_binding(self, binding: BindingRecord) -> BindingRecord | None:
        return self.bindings_from.get(binding.source, {}).get(binding_key(binding))

    def add_exchange(self, exchange: ExchangeRecord) -> list[Change]:
        self._count_arguments(exchange, self.exchanges.get(exchange.name))
        self.exchanges[exchange.name] = exchange
        return [Added(exchange)]

    def add_queue(self, queue: QueueRecord) -> list[Change]:
        self._count_arguments(queue, self.queues.get(queue.name))
        self.queues[queue.name] = queue
        return [Added(queue)]

    def _count_arguments(self, came: Counted | None, went: Counted | None) -> None:
        if came is not None:
            self.argument_bytes += argument_bytes(came.arguments)
        if went is not None:
            self.argument_bytes -= argument_bytes(went.arguments)

    def bind(self, binding: BindingRecord) -> list[Change]:
        key = binding_key(binding)
        if key in self.bindings_from.get(binding.source, {}):
            return []
        self.bindings_from.setdefault(binding.source, {})[key] = binding
        self.bindings_to.setdefault((binding.to_queue, binding.destination), {})[key] = binding
        self.binding_count += 1
        self._count_arguments(binding, None)
        return [Added(binding)]

    def unbind(self, binding: BindingRecord) -> list[Change]:
        found = self.find_binding(binding)
        if found is None:
            return []
        changes = self._drop_bindings([found])
        return changes + self._drop_unused_exchanges([found.source])

    def remove_queue(self, name: str) -> list[Change]:
        queue = self.queues.pop(name, None)
        if queue is None:
            return []
        self._count_arguments(None, queue)
        inbound = list(self.bindings_to.get((True, name), {}).values())
        changes = self._drop_bindings(inbound)
        changes.append(Removed(queue))
        return changes + self._drop_unused_exchanges([binding.source for binding in inbound])

    def remove_exchange(self, name: str) -> list[Change]:
        changes, sources = self._remove_one_exchange(name)
        return changes + self._drop_unused_exchanges(sources)

    def _remove_one_exchange(self, name: str) -> tuple[list[Change], list[str]]:
        """The changes, and the exchanges that have lost a binding by it."""
        exchange = self.exchanges.pop(name, None)
        if exchange is None:
            return [], []
        self._count_arguments(None, exchange)
        inbound = list(self.bindings_to.get((False, name), {}).values())
        outbound = list(self.bindings_from.get(name, {}).values())
        changes = self._drop_bindings(inbound + outbound)
        changes.append(Removed(exchange))
        return changes, [binding.source for binding in inbound]

    def _drop_bindings(self, bindings: list[BindingRecord]) -> list[Change]:
        changes: list[Change] = []
        for binding in bindings:
            key = binding_key(binding)
            here = self.bindings_from.get(binding.source, {})
            # A self-binding of an exchange is listed both ways and dropped once.
            if here.pop(key, None) is None:
                continue
            if not here:
                del self.bindings_from[binding.source]
            there = self.bindings_to[(binding.to_queue, binding.destination)]
            del there[key]
            if not there:
                del self.bindings_to[(binding.to_queue, binding.destination)]
            self.binding_count -= 1
            self._count_arguments(None, binding)
            changes.append(Removed(binding))
        return changes

    def _drop_unused_exchanges(self, sources: list[str]) -> list[Change]:
        """Auto-delete exchanges among these that have just lost their last binding, and those that lose it by that."""
        changes: list[Change] = []
        todo = list(dict.fromkeys(sources))
        while todo:
            name = todo.pop(0)
            exchange = self.exchanges.get(name)
            if exchange is not None and exchange.auto_delete and name not in self.bindings_from:
                removed, lost = self._remove_one_exchange(name)
                changes += removed
                todo += lost
        return changes
