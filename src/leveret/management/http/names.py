"""Names of queues and exchanges out of paths: texts, no longer than AMQP takes them."""

from __future__ import annotations

from leveret.catalog.json_tables import is_text
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets
from leveret.management.http.errors import bad_request


def checked_name(what: str, name: str) -> str:
    """The same name, if it can be one."""
    length = len(name_octets(name))
    if length > NAME_OCTETS_MAX:
        raise bad_request(f"{what} should be less than {NAME_OCTETS_MAX} bytes, actually was {length}\n")
    if not is_text(name):
        raise bad_request(f"{what} is no valid UTF-8")
    return name
