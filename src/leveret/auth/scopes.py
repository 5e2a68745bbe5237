"""The scopes of a token: what its bearer may do, in the notation of RabbitMQ.

    read:<vhost>/<name>                 to read queues and exchanges of these names there
    write:<vhost>/<name>/<routing key>  to write, and at topic exchanges to publish with these keys
    configure:<vhost>/<name>
    tag:administrator                   a user's tag

The three parts are patterns, in which * stands for any run of letters; any letter may be written as in a query string:
%2A for a star, %2F for a slash, + for a space. A scope without a routing key says nothing about keys, so its bearer
publishes with none. Never looks at a signature: that was checked before (auth/tokens.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from leveret.core.codec.names import name_octets

KINDS = ("configure", "write", "read")
TAGS = ("administrator", "monitoring", "policymaker", "management", "impersonator")
# Of one token: each question goes through them.
SCOPES_MAX = 256
SCOPE_CHARACTERS_MAX = 1024
_HALF_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Scope(NamedTuple):
    kind: str
    vhost: str
    name: str
    # None if the scope has none: then it says nothing about keys.
    key: str | None


class Scopes:
    def __init__(self, scopes: tuple[Scope, ...], tags: tuple[str, ...]) -> None:
        self.scopes = scopes
        self.tags = tags

    def may_enter(self, vhost: str) -> bool:
        return any(matches(scope.vhost, vhost) for scope in self.scopes)

    def allows(self, kind: str, vhost: str, name: str) -> bool:
        return any(
            scope.kind == kind and matches(scope.vhost, vhost) and matches(scope.name, name) for scope in self.scopes
        )

    def allows_topic(self, kind: str, vhost: str, exchange: str, key: str) -> bool:
        return any(
            scope.kind == kind
            and scope.key is not None
            and matches(scope.vhost, vhost)
            and matches(scope.name, exchange)
            and matches(scope.key, key)
            for scope in self.scopes
        )


def read_scopes(granted: Iterable[str], prefix: str) -> Scopes:
    """What of a token's scopes is meant for this broker; the rest is passed over, as RabbitMQ does."""
    scopes: list[Scope] = []
    tags: list[str] = []
    for text in granted:
        if not text.startswith(prefix) or len(text) > SCOPE_CHARACTERS_MAX:
            continue
        kind, colon, rest = text[len(prefix) :].partition(":")
        if kind == "tag" and rest in TAGS and rest not in tags:
            tags.append(rest)
        elif kind in KINDS and colon and len(scopes) < SCOPES_MAX:
            parts = rest.split("/")
            if len(parts) in (2, 3):
                scopes.append(Scope(kind, parts[0], parts[1], parts[2] if len(parts) == 3 else None))
    return Scopes(tuple(scopes), tuple(tags))


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text fits. Linear: what stands between two stars is looked for once, from the left."""
    if _HALF_ESCAPE.search(pattern):
        # As in RabbitMQ nothing fits such a pattern.
        return False
    parts = [unquote_to_bytes(part.replace("+", " ")) for part in pattern.split("*")]
    octets = name_octets(text)
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return octets == first
    if len(octets) < len(first) + len(last) or not octets.startswith(first) or not octets.endswith(last):
        return False
    at, end = len(first), len(octets) - len(last)
    for part in parts[1:-1]:
        found = octets.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
