"""Names of queues and exchanges out of paths: no longer than AMQP takes them."""

from __future__ import annotations

from leveret.broker.vhost import octets
from leveret.management.http.errors import bad_request

NAME_OCTETS_MAX = 255


def check_length(what: str, name: str) -> str:
    length = len(octets(name))
    if length > NAME_OCTETS_MAX:
        raise bad_request(f"{what} should be less than {NAME_OCTETS_MAX} bytes, actually was {length}\n")
    return name
