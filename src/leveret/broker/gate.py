"""The gate that everything published passes, whichever way it came: may he, and is the message one that the broker can
answer for?

The publish path (core/connection/publish_path.py) does the work per message and asks here when something is new. Each
channel of AMQP has one, and each request over HTTP that publishes."""

from __future__ import annotations

from leveret.auth.access import WRITE, Access, Right, has
from leveret.broker.copies import copy_keys, resolve_copies
from leveret.broker.topology import REPLY_TO_PREFIX, exchange_text
from leveret.broker.vhost import LiveVhost
from leveret.catalog.arguments import check_expiration
from leveret.core.codec.names import name_text
from leveret.core.codec.properties import Properties
from leveret.core.connection.router import Exchange
from leveret.core.queue.contract import Queue
from leveret.errors import SoftError
from leveret.queues.death import claimed
from leveret.queues.delay import delayed

REPLY_TO = REPLY_TO_PREFIX.encode()


class Gate:
    __slots__ = ("access", "reply_name", "vhost")

    def __init__(self, vhost: LiveVhost, access: Access) -> None:
        self.vhost = vhost
        self.access = access
        # The publisher's direct reply-to address while he has a reply consumer.
        self.reply_name: bytes | None = None

    def refuse_unknown_exchange(self, address: bytes) -> None:
        name = address[1 : 1 + address[0]].decode("utf-8", "replace")
        self.access.check_exchange(WRITE, name)
        raise SoftError(404, f"no {exchange_text(self.vhost.name, name)}")

    def check_publish(self, exchange: Exchange) -> bool:
        """Whether each routing key has to be asked for, too."""
        name = exchange.record.name
        self.access.check_exchange(WRITE, name)
        if exchange.internal:
            raise SoftError(403, f"cannot publish to internal {exchange_text(self.vhost.name, name)}")
        return self.access.has_topics(exchange.record)

    def check_key(self, exchange: Exchange, key: bytes) -> None:
        self.access.check_topic(WRITE, exchange.record, name_text(key))

    def check_copies(self, exchange: Exchange, properties: Properties) -> None:
        """The keys in CC and BCC: what may not be published with a key must not get there as a copy."""
        if self.access.has_topics(exchange.record):
            for key in copy_keys(properties):
                self.check_key(exchange, key)

    def inspect(self, properties: Properties) -> Properties:
        """Checks the properties that the broker answers for, and gives a direct reply-to its return address."""
        user_id = properties.user_id
        user = self.access.user
        if user_id is not None and user_id != user.encode() and not has(self.access.identity, Right.IMPERSONATOR):
            raise SoftError(
                406,
                f"user_id property set to '{user_id.decode('utf-8', 'replace')}' but authenticated user was '{user}'",
            )
        if properties.expiration is not None:
            check_expiration(properties.expiration)
        if properties.reply_to == REPLY_TO:
            if self.reply_name is None:
                raise SoftError(406, "fast reply consumer does not exist")
            return properties.replace({"reply_to": self.reply_name.decode()})
        return properties

    def identify(self, properties: Properties) -> Properties:
        """The same with a message id, a random UUID, for an exchange that gives one to messages without."""
        return properties.replace({"message_id": self.vhost.new_uuid()})

    def resolve_copies(self, exchange: Exchange, key: bytes, properties: Properties) -> tuple[Queue, ...]:
        self.check_copies(exchange, properties)
        return resolve_copies(self.vhost.router, exchange, key, properties)

    def delay(self, properties: Properties) -> tuple[Properties, int]:
        """What a message with x-delay or x-death goes on with, and how many milliseconds it waits."""
        if properties.has_death:
            properties = claimed(properties)
        if not properties.has_delay:
            return properties, 0
        if properties.has_cc:
            # Now: when a delayed exchange routes it, nobody can be told any more that its headers are bad.
            copy_keys(properties)
        return delayed(properties)
