"""From a queue's effective arguments to the rules its machine lives by. The arguments were validated before."""

from __future__ import annotations

from leveret.catalog.delays import parse_delays
from leveret.catalog.records import Arguments
from leveret.core.codec.names import name_octets
from leveret.core.queue.rules import Rules

# As core.queue.rules numbers them.
OVERFLOWS = {"drop-head": 0, "reject-publish": 1, "reject-publish-dlx": 2}


def rules_from(arguments: Arguments) -> Rules:
    retry_delays = arguments.get("x-retry-delays")
    return Rules(
        ttl_ms=arguments.get("x-message-ttl", -1),
        length_max=arguments.get("x-max-length", -1),
        bytes_max=arguments.get("x-max-length-bytes", -1),
        overflow=OVERFLOWS[arguments.get("x-overflow", "drop-head")],
        delivery_limit=arguments.get("x-delivery-limit", -1),
        dead_letter_exchange=_octets(arguments.get("x-dead-letter-exchange")),
        dead_letter_key=_octets(arguments.get("x-dead-letter-routing-key")),
        retry_delays=() if retry_delays is None else parse_delays(retry_delays),
        parking_lot=_octets(arguments.get("x-parking-lot")),
    )


def _octets(name: str | None) -> bytes | None:
    return None if name is None else name_octets(name)
