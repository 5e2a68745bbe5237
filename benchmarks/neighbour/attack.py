"""What an attack is: what it needs before it begins, what it does until a moment, and what it counts."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from benchmarks.neighbour.link import Link
from leveret.catalog.passwords import ALGORITHMS, ARGON2ID, hash_password

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Person:
    """A user of one virtual host, with all rights there and none elsewhere."""

    name: str
    vhost: str
    tags: str = ""

    @property
    def password(self) -> str:
        return self.name

    @property
    def authorization(self) -> str:
        return f"Basic {base64.b64encode(f'{self.name}:{self.password}'.encode()).decode()}"


OPERATOR = Person("guest", "/")
DECENT = Person("decent", "decent")
# An ordinary tenant, who may look at the virtual host over HTTP.
ATTACKER = Person("attacker", "attacked", "management")


# A login that succeeded once is remembered: each of these is used once.
NEWCOMERS = tuple(f"newcomer-{number}" for number in range(200))
NEWCOMERS_SALT = b"neighbour-bench!"


class Tally:
    """What an attack has done so far. Several of its threads count here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.done = 0
        self.refused = 0

    def add(self, count: int = 1) -> None:
        with self._lock:
            self.done += count

    def refuse(self, count: int = 1) -> None:
        with self._lock:
            self.refused += count


@dataclass(frozen=True)
class Ground:
    """The ports of a broker that has both tenants."""

    amqp_port: int
    stream_port: int
    management_port: int

    def link(self, source: str = "127.0.0.1") -> Link:
        """The attacker, logged in, with channel 1 open."""
        link = Link(self.amqp_port, source).log_in(ATTACKER.name, ATTACKER.password, ATTACKER.vhost)
        link.open_channel(1)
        return link

    def ask(self, path: str, method: str = "GET", body: Any = None, person: Person = ATTACKER) -> tuple[int, bytes]:
        """The status and the answer of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.management_port, timeout=DEADLINE_S)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Authorization": person.authorization})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def settle(self) -> None:
        """Makes both tenants, and users of the decent one who have never logged in."""
        hashed = hash_password(DECENT.password.encode(), NEWCOMERS_SALT)
        kind = {"password_hash": hashed, "hashing_algorithm": ALGORITHMS[ARGON2ID], "tags": ""}
        users = [{"name": name, **kind} for name in NEWCOMERS]
        rights = {"vhost": DECENT.vhost, "configure": "", "write": "", "read": ""}
        permissions = [{"user": name, **rights} for name in NEWCOMERS]
        for person in (DECENT, ATTACKER):
            self._put(f"/api/users/{person.name}", {"password": person.password, "tags": person.tags})
            self._put(f"/api/vhosts/{quote(person.vhost, '')}", {})
            everything = {"configure": ".*", "write": ".*", "read": ".*"}
            self._put(f"/api/permissions/{quote(person.vhost, '')}/{person.name}", everything)
        self._put("/api/definitions", {"users": users, "permissions": permissions}, "POST")

    def _put(self, path: str, body: Any, method: str = "PUT") -> None:
        status, answer = self.ask(path, method, body, OPERATOR)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")


def nothing(ground: Ground) -> None:
    """For attacks that need no preparation."""


@dataclass(frozen=True)
class Attack:
    """`run` attacks until the moment that it is given (of time.monotonic) and then closes what it opened. A broker that
    does not answer may hold it longer, up to the deadline of its sockets."""

    name: str
    # What the tally counts.
    unit: str
    run: Callable[[Ground, Tally, float], None]
    prepare: Callable[[Ground], None] = nothing
