"""The firehose: while a virtual host is traced, a copy of each message that is published or delivered in it goes to its
exchange amq.rabbitmq.trace, as with RabbitMQ.

Channels note what passes (core.connection.trace); here notes become messages, so many a turn. A copy is published with
the key `publish.<exchange>` or `deliver.<queue>`; what the original was like is in its headers. Nothing is made where
nothing is bound to the exchange that wants it, and copies are not traced themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.copies import copy_keys
from leveret.broker.vhost import LiveVhost
from leveret.catalog.commands import Added, Change
from leveret.catalog.records import Vhost
from leveret.core.codec.field_types import Timestamp
from leveret.core.codec.message import HIDDEN_HEADERS, Message, new_message
from leveret.core.codec.names import NAME_OCTETS_MAX, name_text
from leveret.core.codec.properties import Properties, encode_properties, parse_properties
from leveret.core.connection.trace import TRACE_EXCHANGE, Notes, Trace
from leveret.core.queue.contract import Queue
from leveret.core.queue.office import Office
from leveret.errors import SoftError
from leveret.runtime.log import get_logger

log = get_logger(__name__)

# Notes of one virtual host that wait to become messages, and octets of bodies that are kept for them, at most.
NOTES_MAX = 20_000
NOTES_BYTES_MAX = 64 * 1024 * 1024
# Notes that become messages in a turn, octets of their bodies after which it ends, and work in units of
# core.observe.meter: whatever is bound to the exchange, it is some milliseconds.
NOTES_A_TURN = 400
BYTES_A_TURN = 4 * 1024 * 1024
WORK_A_TURN = 60_000
# What a copy costs, and each queue that it goes to.
COPY_WORK = 100
PLACED_WORK = 3
# Names that `routed_queues` has at most: the header must fit into a frame.
QUEUES_SHOWN_MAX = 1000
# Stands for the connection of what was asked for over HTTP.
HTTP = "HTTP API"


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose channel it was."""

    connection: str
    channel: int
    user: str


class Note(NamedTuple):
    """As core.connection.trace.Trace makes it: published to some queues, or delivered from one."""

    origin: Origin
    message: Message
    body: bytes
    targets: tuple[Queue, ...] | None
    queue: bytes | None
    redelivered: bool


class Firehose:
    """That of one virtual host."""

    def __init__(self, vhost: LiveVhost, office: Office, node_name: str) -> None:
        self._vhost = vhost
        self._office = office
        self._node_name = node_name
        self._closed = False
        self._warned = False
        self.notes = Notes(office, self, NOTES_MAX, NOTES_BYTES_MAX)

    def trace(self, connection: str, channel: int, user: str) -> Trace:
        """For a channel."""
        return Trace(self.notes, Origin(connection, channel, user))

    def close(self) -> None:
        """What was noted is not published any more."""
        self._closed = True

    def go_on(self) -> None:
        """One turn's work."""
        octets = 0
        meter = self._office.meter
        limit = meter.spent + WORK_A_TURN
        for _ in range(NOTES_A_TURN):
            is_over = self._closed or octets > BYTES_A_TURN or meter.spent >= limit
            note = None if is_over else self.notes.take()
            if note is None:
                break
            octets += self._publish(Note(*note))
        if self.notes.missed_total and not self._warned:
            self._warned = True
            log.warning("more is published and delivered than can be traced; some is left out", vhost=self._vhost.name)
        if self.notes.waiting and not self._closed:
            self._office.go_on_later(self)

    def _publish(self, note: Note) -> int:
        """Octets that were copied."""
        origin, message, queue = note.origin, note.message, note.queue
        exchange = self._vhost.exchanges.get(TRACE_EXCHANGE)
        if exchange is None:
            return 0
        key = (b"publish." + message.exchange if queue is None else b"deliver." + queue)[:NAME_OCTETS_MAX]
        reached = self._vhost.router.resolve(exchange, [key], NO_PROPERTIES)
        if not reached:
            return 0
        self._office.meter.spent += COPY_WORK + PLACED_WORK * len(reached)
        more: dict[str, Any] = (
            {"routed_queues": [name_text(target.name) for target in (note.targets or ())[:QUEUES_SHOWN_MAX]]}
            if queue is None
            else {"redelivered": int(note.redelivered)}
        )
        headers = {
            "exchange_name": name_text(message.exchange),
            "routing_keys": [name_text(message.routing_key), *map(name_text, _copies(message.properties))],
            "properties": _shown(message.properties),
            "node": self._node_name,
            "vhost": self._vhost.name,
            "connection": origin.connection,
            "channel": origin.channel,
            "user": origin.user,
            **more,
        }
        properties = parse_properties(encode_properties(headers=headers))
        self._office.deliver(new_message(TRACE_EXCHANGE, key, properties, note.body), list(reached))
        return len(note.body)


class Firehoses:
    """Those of all virtual hosts: each has one while its record says that it is traced."""

    def __init__(self, broker: Broker, node_name: str) -> None:
        self._broker = broker
        self._node_name = node_name
        self._open: dict[str, Firehose] = {}
        # Of those that are closed.
        self._noted, self._missed = 0, 0
        broker.listeners.append(self._changed)

    def open(self) -> None:
        """After a start."""
        for vhost in self._broker.catalog.vhosts.values():
            self._set(vhost)

    @property
    def noted_total(self) -> int:
        return self._noted + sum(int(one.notes.noted_total) for one in self._open.values())

    @property
    def missed_total(self) -> int:
        return self._missed + sum(int(one.notes.missed_total) for one in self._open.values())

    def _changed(self, change: Change) -> None:
        if not isinstance(change.record, Vhost):
            return
        if isinstance(change, Added):
            self._set(change.record)
        else:
            self._close(change.record.name)

    def _set(self, record: Vhost) -> None:
        if record.tracing == (record.name in self._open):
            return
        vhost = self._broker.vhosts[record.name]
        if record.tracing:
            self._open[record.name] = Firehose(vhost, self._broker.office, self._node_name)
        else:
            self._close(record.name)
        vhost.firehose = self._open.get(record.name)
        log.info("tracing is on" if record.tracing else "tracing is off", vhost=record.name)
        for connection in list(self._broker.connections.values()):
            if connection.vhost_name == record.name:
                connection.tracing_changed()

    def _close(self, name: str) -> None:
        closed = self._open.pop(name, None)
        if closed is not None:
            self._noted += int(closed.notes.noted_total)
            self._missed += int(closed.notes.missed_total)
            closed.close()


NO_PROPERTIES = parse_properties(encode_properties())


def _copies(properties: Properties) -> list[bytes]:
    try:
        return copy_keys(properties) if properties.has_cc else []
    except SoftError:
        # Headers of that name which did not come from a publisher, and mean nothing.
        return []


def _shown(properties: Properties) -> dict[str, Any]:
    """As a table: numbers are numbers there, times too. Without the headers that clients never see."""
    found: dict[str, Any] = {
        name: int(value) if isinstance(value, Timestamp) else value for name, value in properties.fields().items()
    }
    if properties.has_bcc:
        found["headers"] = {name: value for name, value in found["headers"].items() if name not in HIDDEN_HEADERS}
    return found
