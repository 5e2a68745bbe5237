"""Super streams: streams that are the partitions of one logical stream, and the exchange that leads to them.

Nothing of them is kept apart: a super stream is an exchange with the argument x-super-stream and the streams that are
bound to it, each with its number in x-stream-partition-order. That is RabbitMQ's convention, which clients know. Called
by the stream protocol and by whatever serves operators."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from leveret.auth.access import CONFIGURE, READ, WRITE
from leveret.broker.broker import Broker
from leveret.broker.reserved_names import RESERVED_PREFIX
from leveret.broker.topology import Requester, exchange_text, queue_text, strip_line_ends
from leveret.broker.vhost import LiveVhost
from leveret.catalog import commands
from leveret.catalog.json_tables import is_text
from leveret.catalog.records import Arguments, BindingRecord, ExchangeRecord, QueueRecord
from leveret.catalog.topology import Topology
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets
from leveret.core.matching.super_stream_matcher import partition_order
from leveret.errors import AlreadyExists, SoftError
from leveret.queues.registry import kind_from_arguments, queue_type
from leveret.routing.super_stream import NAME as BY_HASH

PARTITIONS_MAX = 1000
SUPER_STREAM = "x-super-stream"
BY_KEY = "direct"
KINDS = (BY_KEY, BY_HASH)
STREAM = "stream"

Names = list[str]


class SuperStream(msgspec.Struct, frozen=True):
    """`kind` is the type of its exchange; partitions and their binding keys are in order."""

    name: str
    kind: str
    partitions: tuple[str, ...]
    binding_keys: tuple[str, ...]


class Partition(msgspec.Struct, frozen=True):
    """The place of a stream in its super stream."""

    super_stream: str
    index: int


class SuperStreams:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    # ---- making and deleting

    def create(
        self,
        who: Requester,
        name: str,
        partitions: int | Sequence[str],
        arguments: Arguments | None = None,
        kind: str = BY_KEY,
        streams: Sequence[str] | None = None,
    ) -> Names:
        """All of it or nothing. `partitions` is their number, or their binding keys; `arguments` are those of each
        stream, which is called <name>-<key> unless `streams` says otherwise. Gives the names of the streams.

        Refuses with 403 what the user may not do, with AlreadyExists if there is a thing of one of the names, and with
        406 everything else."""
        name = strip_line_ends(name)
        keys = _binding_keys(partitions)
        named = [strip_line_ends(stream) for stream in streams or [f"{name}-{key}" for key in keys]]
        if len(named) != len(keys):
            raise SoftError(406, f"{len(keys)} binding keys for {len(named)} partitions of super stream '{name}'")
        if kind not in KINDS:
            raise SoftError(406, f"the exchange of a super stream is of type {' or '.join(KINDS)}, not '{kind}'")
        _check_access(who, name, named)
        _check_names(name, named)
        self._refuse_existing(who.vhost, name, named)
        limits = self._broker.limits.topology
        stream = self._first_partition(who.vhost.name, named[0], arguments or {})
        limits.check_queues(who.vhost.name, named[0], stream.arguments, len(named))
        limits.check_bindings(who.vhost.name, {}, len(named))
        exchange = ExchangeRecord(who.vhost.name, name, kind, True, False, False, {SUPER_STREAM: True})
        limits.check_exchange(who.vhost.name, name, exchange.arguments)
        self._broker.apply(commands.DeclareSuperStream(exchange, stream, tuple(zip(named, keys, strict=True))), who)
        return named

    def _refuse_existing(self, vhost: LiveVhost, name: str, streams: Names) -> None:
        if name_octets(name) in vhost.exchanges:
            raise AlreadyExists(406, f"{exchange_text(vhost.name, name)} exists already")
        for stream in streams:
            if name_octets(stream) in vhost.queues:
                raise AlreadyExists(406, f"{queue_text(vhost.name, stream)} exists already")

    def _first_partition(self, vhost: str, name: str, arguments: Arguments) -> QueueRecord:
        if self._broker.store is None:
            raise SoftError(406, "a stream needs a data directory, and this broker has none")
        what = queue_text(vhost, name)
        arguments = {"x-queue-type": STREAM, **arguments}
        kind = kind_from_arguments(arguments, what)
        if kind != STREAM:
            raise SoftError(406, f"a partition of a super stream is a stream: {what} cannot be of type '{kind}'")
        record = QueueRecord(vhost, name, kind, True, False, 0, arguments, *self._broker.new_identity())
        queue_type(kind).validate(record, what)
        return record

    def delete(self, who: Requester, name: str) -> Names:
        """The exchange and every stream that is bound to it, with all that is in them. Gives the names of the streams;
        404 if there is no super stream of this name."""
        name = strip_line_ends(name)
        who.access.check_exchange(CONFIGURE, name)
        topology = self._topology(who.vhost.name)
        if not _is_super_stream(self._exchange(who.vhost.name, name)):
            raise SoftError(404, f"{exchange_text(who.vhost.name, name)} is no super stream")
        streams = list(dict.fromkeys(binding.destination for binding in _partitions(topology, name)))
        _check_access(who, name, streams)
        self._broker.apply(commands.DeleteSuperStream(who.vhost.name, name, tuple(streams)), who)
        return streams

    # ---- looking

    def partitions(self, vhost: str, name: str) -> Names:
        """The streams that are bound to an exchange, in their order; 404 without the exchange. As in RabbitMQ any
        exchange will do."""
        self._exchange(vhost, name)
        return [binding.destination for binding in _partitions(self._topology(vhost), name)]

    def partition_numbers(self, vhost: str, name: str) -> dict[str, int]:
        """The same streams, each once, with the numbers that they were given; one that was bound without a number has
        that of its place."""
        self._exchange(vhost, name)
        found: dict[str, int] = {}
        for place, binding in enumerate(_partitions(self._topology(vhost), name)):
            order = _order(binding)
            found.setdefault(binding.destination, place if order is None else max(order, 0))
        return found

    def route(self, vhost: str, name: str, key: str) -> Names:
        """The streams that a message with this routing key goes to."""
        self._exchange(vhost, name)
        live = self._broker.vhosts[vhost]
        found = live.router.resolve(live.exchanges[name_octets(name)], [name_octets(key)], None)
        return [queue.record.name for queue in found if queue.record.kind == STREAM]

    def of_stream(self, vhost: str, stream: str) -> Partition | None:
        """Of which super stream it is a partition; of the first one that it was bound to, should there be several."""
        topology = self._topology(vhost)
        for binding in topology.bindings_to.get((True, stream), {}).values():
            if _is_super_stream(topology.exchanges[binding.source]):
                order = _order(binding)
                if order is None:
                    # Bound by somebody who gave it no number: it is where it stands.
                    order = self.partitions(vhost, binding.source).index(stream)
                return Partition(binding.source, max(order, 0))
        return None

    def list(self, vhost: str) -> Sequence[SuperStream]:
        topology = self._topology(vhost)
        return [_view(topology, record) for record in topology.exchanges.values() if _is_super_stream(record)]

    def _topology(self, vhost: str) -> Topology:
        topology = self._broker.catalog.topologies.get(vhost)
        if topology is None:
            raise SoftError(404, f"no vhost '{vhost}'")
        return topology

    def _exchange(self, vhost: str, name: str) -> ExchangeRecord:
        record = self._topology(vhost).exchanges.get(name)
        if record is None:
            raise SoftError(404, f"no {exchange_text(vhost, name)}")
        return record


def _binding_keys(partitions: int | Sequence[str]) -> Names:
    count = partitions if isinstance(partitions, int) else len(partitions)
    # Before anything is made of the number.
    if not 1 <= count <= PARTITIONS_MAX:
        raise SoftError(406, f"a super stream has 1 to {PARTITIONS_MAX} partitions, not {count}")
    keys = [str(number) for number in range(count)] if isinstance(partitions, int) else list(partitions)
    for key in keys:
        if len(name_octets(key)) > NAME_OCTETS_MAX:
            raise SoftError(406, f"a binding key has at most {NAME_OCTETS_MAX} octets: '{key[:32]}...'")
    return keys


def _check_access(who: Requester, name: str, streams: Sequence[str]) -> None:
    """Everything that declaring and binding one by one would ask for, before anything is done."""
    who.access.check_exchange(CONFIGURE, name)
    for stream in streams:
        who.access.check_queue(CONFIGURE, stream)
    who.access.check_exchange(READ, name)
    for stream in streams:
        who.access.check_queue(WRITE, stream)


def _check_names(name: str, streams: Sequence[str]) -> None:
    for given in (name, *streams):
        if given == "" or len(name_octets(given)) > NAME_OCTETS_MAX:
            raise SoftError(406, f"a name has 1 to {NAME_OCTETS_MAX} octets: '{given[:32]}'")
        if not is_text(given):
            raise SoftError(406, "a name must be valid UTF-8")
        if given.startswith(RESERVED_PREFIX):
            raise SoftError(406, f"name '{given}' contains reserved prefix '{RESERVED_PREFIX}*'")
    if len(set(streams)) < len(streams):
        twice = next(stream for at, stream in enumerate(streams) if stream in streams[:at])
        raise SoftError(406, f"two partitions of super stream '{name}' have the name '{twice}'")


def _is_super_stream(record: ExchangeRecord) -> bool:
    return record.kind == BY_HASH or record.arguments.get(SUPER_STREAM) in (True, "true")


def _order(binding: BindingRecord) -> int | None:
    try:
        return partition_order(name_octets(binding.routing_key), binding.arguments)
    except ValueError:
        return None


def _partitions(topology: Topology, exchange: str) -> Sequence[BindingRecord]:
    """The bindings to streams in the order of the exchange's matcher; those without a number are the last."""
    bindings = [
        binding
        for binding in topology.bindings_from.get(exchange, {}).values()
        if binding.to_queue and topology.queues[binding.destination].kind == STREAM
    ]

    def place(binding: BindingRecord) -> tuple[bool, int, bytes, bytes]:
        order = _order(binding)
        return order is None, order or 0, name_octets(binding.destination), name_octets(binding.routing_key)

    return sorted(bindings, key=place)


def _view(topology: Topology, record: ExchangeRecord) -> SuperStream:
    bindings = _partitions(topology, record.name)
    return SuperStream(
        record.name,
        record.kind,
        tuple(binding.destination for binding in bindings),
        tuple(binding.routing_key for binding in bindings),
    )
