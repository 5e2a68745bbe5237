"""Topic permissions of those who have the broker send messages on: by a dead-letter exchange, an alternate exchange, or
a binding between exchanges.

RabbitMQ asks for the right to write to the exchange and not for the keys, so that whoever is held to certain keys gets
messages with any other key there in this way. Here a user whom topic permissions hold to certain keys at the exchange
may have only messages with such keys sent there."""

from __future__ import annotations

from typing import Protocol

from leveret.auth.access import WRITE, Access
from leveret.auth.identity import CatalogUser
from leveret.broker.vhost import LiveVhost
from leveret.core.codec.names import name_octets
from leveret.errors import SoftError

# Nobody names a key like this, so whoever may publish with it may do so with every key.
ANY_KEY = "\x1a.any\x1a"


class Forwarder(Protocol):
    @property
    def vhost(self) -> LiveVhost: ...
    @property
    def access(self) -> Access: ...


def check_forwarding(who: Forwarder, exchange: str, routing_key: str | None) -> None:
    """Messages will go on to this exchange with this key, or with whichever they have if it is None. Raises 403."""
    access = who.access
    identity = access.identity
    live = who.vhost.exchanges.get(name_octets(exchange))
    if live is None:
        # It may be made later, as a topic exchange; a token says nothing about single exchanges.
        held = isinstance(identity, CatalogUser) and identity.has_topics(access.vhost, exchange)
    else:
        held = access.has_topics(live.record)
    key = ANY_KEY if routing_key is None else routing_key
    if held and not identity.allows_topic(WRITE, access.vhost, exchange, key):
        raise SoftError(
            403,
            f"access to exchange '{exchange}' in vhost '{access.vhost}' refused for user '{access.user}': messages "
            "would be sent on there with routing keys that topic permissions do not allow",
        )
