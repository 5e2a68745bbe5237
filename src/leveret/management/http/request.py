"""A request as handlers see it, and what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.auth.access import Access, Right, has
from leveret.auth.identity import Identity
from leveret.broker.vhost import LiveVhost
from leveret.management.http.budget import Hold
from leveret.management.http.errors import bad_request, not_found, vhost_not_found

if TYPE_CHECKING:
    from leveret.management.services import Services

T = TypeVar("T")
# How the default exchange, whose name is empty, is called in paths.
DEFAULT_EXCHANGE = "amq.default"
# No connection has this id: exclusive queues are not accessible over HTTP.
NO_CONNECTION = -1
YES = ("true", "1", "yes")
NO = ("false", "0", "no", "")


@dataclass
class Answer:
    """`body` is any value that JSON can say, or octets as they are, or pieces of octets as they come."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


Pieces = AsyncIterator[bytes]

CREATED = Answer(201)
DONE = Answer(204)


class Requester:
    """The caller of an HTTP request, in the form that broker/topology.py expects."""

    connection_id = NO_CONNECTION
    # What is asked over HTTP is noted there, refusals too.
    actor = None

    def __init__(self, vhost: LiveVhost, access: Access) -> None:
        self.vhost = vhost
        self.access = access


@dataclass
class Request:
    services: Services
    who: Identity
    peer_host: str
    method: str
    # Names out of the path, decoded.
    path: dict[str, str]
    query: Mapping[str, str]
    # The body, decoded from JSON and of the type the route says; None if there was none.
    body: Any = None
    content_type: str = ""
    # By their names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)
    # Whether it came over TLS, and to which port of this side.
    secure: bool = False
    port: int = 0
    # Of the session by which the caller is known, if there is one.
    session_token: str | None = None
    # The memory that the answer takes until it is sent.
    answer_hold: Hold | None = None
    # What the audit log is to say beside the names of the path: names and counts, never anything that is secret.
    noted: dict[str, Any] = field(default_factory=dict)

    # ---- what the path names

    @property
    def vhost(self) -> LiveVhost:
        """The virtual host of the path."""
        found = self.services.broker.vhosts.get(self.path["vhost"])
        if found is None:
            raise not_found() if self.method in ("GET", "DELETE") else vhost_not_found()
        return found

    @property
    def exchange_name(self) -> str:
        name = self.path["exchange"]
        return "" if name == DEFAULT_EXCHANGE else name

    def requester(self, vhost: LiveVhost | None = None) -> Requester:
        """In whose name things are declared, bound, read and published."""
        vhost = vhost or self.vhost
        return Requester(vhost, Access(self.who, vhost.name))

    def is_welcome(self) -> bool:
        """Whether the one who asked could still ask: for answers that go on while rights change, and logins end."""
        ends = self.who.expires_at
        if ends is not None and ends <= self.services.broker.clock.wall():
            return False
        token = self.session_token
        if token is not None and self.services.sessions.find(token, self.peer_host) is None:
            return False
        return self.who.exists and has(self.who, Right.MANAGEMENT)

    # ---- what the query says

    def flag(self, name: str, default: bool = False) -> bool:
        given = self.query.get(name)
        if given is None:
            return default
        if given.lower() not in YES + NO:
            raise bad_request(f"{name} is {given[:64]!r}; it must be true or false")
        return given.lower() in YES

    def number(self, name: str, default: int, least: int, most: int) -> int:
        given = self.query.get(name)
        if given is None or given == "":
            return default
        try:
            value = int(given)
        except ValueError:
            raise bad_request(f"{name} is {given[:64]!r}; it must be a whole number") from None
        if not least <= value <= most:
            raise bad_request(f"{name} is {value}; it must be from {least} to {most}")
        return value

    # ---- answering only when it is safe

    async def durably(self, change: Callable[[], T]) -> T:
        """Makes a change and waits until it is on disk: what was answered with success survives."""
        store = self.services.broker.store
        logged = store.commands_total if store is not None else 0
        with self.services.broker.turn():
            made = change()
        if store is not None and store.commands_total != logged:
            await self.synced()
        return made

    async def synced(self) -> None:
        store = self.services.broker.store
        if store is not None:
            await asyncio.shield(store.flush())
