"""CC and BCC: a message's headers may name further routing keys. Both stay with the message; BCC is taken off where
clients see it (core.codec.message.shown)."""

from __future__ import annotations

from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import Properties
from leveret.core.codec.wording import shown_type
from leveret.core.connection.router import Exchange, Router
from leveret.core.queue.contract import Queue
from leveret.errors import SoftError


def copy_keys(properties: Properties) -> list[bytes]:
    """The further keys. Raises if a header is no list."""
    headers = properties.headers()
    keys = []
    for name in ("CC", "BCC"):
        if name not in headers:
            continue
        copies = headers[name]
        if not isinstance(copies, list):
            reason = f'{{unacceptable_type_in_header,"{name}",{shown_type(copies)}}}'
            raise SoftError(406, f"invalid message: {reason}")
        keys += [name_octets(copy) for copy in copies if isinstance(copy, str)]
    return keys


def resolve_copies(router: Router, exchange: Exchange, key: bytes, properties: Properties) -> tuple[Queue, ...]:
    """The queues for all keys of a message."""
    targets: tuple[Queue, ...] = router.resolve(exchange, [key, *copy_keys(properties)], properties)
    return targets
