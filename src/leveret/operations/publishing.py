"""Publishing without a connection: requests over HTTP.

A message goes through the same publish path and the same gate as one that came over AMQP: permissions, user-id,
expiration, delays, copies, alternate exchanges and deduplication are all theirs."""

from __future__ import annotations

from dataclasses import dataclass

from leveret.broker.broker import Broker
from leveret.broker.gate import Gate
from leveret.broker.topology import Requester
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets
from leveret.core.codec.properties import Properties
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.core.connection.channel import Channel
from leveret.core.connection.publish_path import PublishPath
from leveret.errors import SoftError
from leveret.operations.firehose import HTTP

# No frame is written here: the size only has to be larger than 0.
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
        """Why publishing is blocked now, or None."""
        return self._broker.blocked_reason

    def publish(self, who: Requester, exchange: str, key: str, properties: Properties, body: bytes) -> Published:
        """Raises SoftError. What is logged is safe after the store's next flush."""
        name, routing_key = name_octets(exchange), name_octets(key)
        for what, given in (("exchange", name), ("routing key", routing_key)):
            if len(given) > NAME_OCTETS_MAX:
                raise SoftError(406, f"the {what} has {len(given)} octets of at most {NAME_OCTETS_MAX}")
        broker = self._broker
        journal = None if broker.store is None else broker.store.journal
        write_buffer = WriteBuffer([], [])
        publish_path = PublishPath(
            0,
            write_buffer,
            who.vhost.router,
            Gate(who.vhost, who.access),
            PAYLOAD_MAX,
            self.body_bytes_max,
            journal,
            broker.office,
        )
        if who.vhost.firehose is not None:
            publish_path.trace = who.vhost.firehose.trace(HTTP, 0, who.access.user)
        with broker.turn():
            # In a transaction it says where it goes before it does.
            publish_path.start_transaction()
            publish_path.offer(bytes([len(name)]) + name + bytes([len(routing_key)]) + routing_key, properties, body)
            pending = publish_path.pending
            assert pending is not None
            ((message, _, targets, _),) = pending
            taken = publish_path.commit()
            # Its counters are added to what channels that are gone have counted.
            publish_path.flush_sizes()
            broker.retired.add_channel(Channel(0, write_buffer, publish_path, None))
        self.published_total += 1
        # The original of a duplicate may not be on disk yet, either.
        logged = journal is not None and (publish_path.met_known or any(target.keeps(message) for target in targets))
        found = tuple(target.record.name for target in targets if target.record is not None)
        return Published(bool(targets), found, not taken, logged)
