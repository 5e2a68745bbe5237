"""Publishing for whoever is not connected: requests over HTTP.

A message goes through the same intake and the same gate as one that came over AMQP: permissions, user-id, expiration,
delays, copies, alternate exchanges and deduplication are all theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.gate import Gate
from leveret.broker.topology import Requester
from leveret.broker.vhost import octets
from leveret.core.channel import Channel
from leveret.core.contract import Queue
from leveret.core.intake import Intake
from leveret.core.outbox import Outbox
from leveret.core.properties import Properties
from leveret.core.stream.queue import StreamQueue
from leveret.errors import SoftError

NAME_OCTETS_MAX = 255
# Nothing is ever written for nobody: it only has to be larger than none.
PAYLOAD_MAX = 131072


@dataclass(frozen=True, slots=True)
class Published:
    """Where a message went: `routed` if anywhere, be it a place without a name such as a delayed exchange's own.
    `refused` is true if one of its queues is full and says so; `logged` if it is not safe before the log's next
    sync."""

    routed: bool
    queues: tuple[str, ...]
    refused: bool
    logged: bool


class Publishing:
    def __init__(self, broker: Broker, body_bytes_max: int) -> None:
        self._broker = broker
        self.body_bytes_max = body_bytes_max
        self.published_total = 0

    @property
    def blocked_reason(self) -> str | None:
        """Why nobody may publish now, or None."""
        return self._broker.blocked_reason

    def publish(self, who: Requester, exchange: str, key: str, properties: Properties, body: bytes) -> Published:
        """Raises SoftError. What is logged is safe after the store's next flush."""
        name, routing_key = octets(exchange), octets(key)
        for what, given in (("exchange", name), ("routing key", routing_key)):
            if len(given) > NAME_OCTETS_MAX:
                raise SoftError(406, f"the {what} has {len(given)} octets of at most {NAME_OCTETS_MAX}")
        broker = self._broker
        journal = None if broker.store is None else broker.store.journal
        outbox = Outbox([], [])
        intake = Intake(
            0,
            outbox,
            who.vhost.router,
            Gate(who.vhost, who.access),
            PAYLOAD_MAX,
            self.body_bytes_max,
            journal,
            broker.office,
        )
        broker.tick()
        # In a transaction it says where it goes before it does.
        intake.start_transaction()
        intake.offer(bytes([len(name)]) + name + bytes([len(routing_key)]) + routing_key, properties, body)
        ((message, _, targets, _),) = intake.pending
        taken = intake.commit()
        # Its counters are added to what channels that are gone have counted.
        intake.flush_sizes()
        broker.retired.add_channel(Channel(0, outbox, intake, None))
        broker.kick()
        self.published_total += 1
        found = tuple(target.record.name for target in targets if target.record is not None)
        return Published(bool(targets), found, not taken, journal is not None and _is_kept(message, targets))


def _is_kept(message: Any, targets: tuple[Queue, ...]) -> bool:
    """Whether one of these queues has it in a log."""
    persistent: bool = message.properties.persistent
    return any(isinstance(queue, StreamQueue) or (persistent and queue.ledger is not None) for queue in targets)
