"""Logins of browsers: which session token belongs to whom, and until when.

A token is 32 random octets, of which only a digest is kept. A session ends after `management.session_s`, with its
logout, with a changed password, a deleted or suspended user, an ended token, and with the broker's process. Never reads
a request: the server finds the cookie (http/server.py), the routes begin and end sessions (api/session.py)."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from leveret.auth.identity import CatalogUser, Identity
from leveret.broker.broker import Broker

# A browser cannot send this header for a page of another origin without asking first, which is always refused. Requests
# with a session must have it; requests with it are not answered by a question for a password.
REQUEST_HEADER = "X-Requested-With"
SESSION_S = 28800.0
TOKEN_BYTES = 32
TOKEN_CHARACTERS_MAX = 64
SESSIONS_MAX = 10_000
SESSIONS_PER_USER_MAX = 50


@dataclass(slots=True)
class Session:
    identity: Identity
    # Of the user at the login, None for the bearer of a token: another one ends the session.
    password_hash: str | None
    began_at: float


def cookie_name(port: int) -> str:
    """Browsers send cookies to all ports of a host: two brokers on one machine must not share a name."""
    return f"leveret-session-{port}"


def token_in(cookies: str | None, port: int) -> str | None:
    """The session token in a Cookie header."""
    if not cookies:
        return None
    try:
        found = SimpleCookie(cookies).get(cookie_name(port))
    except CookieError:
        return None
    return None if found is None else found.value


class Sessions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.session_s = SESSION_S
        # By the digest of the token, the oldest first.
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self.begun_total = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, identity: Identity) -> str:
        """A token for a user who has just logged in. Beyond the limits the oldest session ends."""
        self._drop_ended()
        own = [key for key, session in self._sessions.items() if session.identity.name == identity.name]
        for key in own[: max(0, len(own) + 1 - SESSIONS_PER_USER_MAX)]:
            del self._sessions[key]
        while len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        octets = self._broker.dice.salt(TOKEN_BYTES)
        token = base64.urlsafe_b64encode(octets).decode().rstrip("=")
        session = Session(identity, self._password_hash(identity), self._broker.clock.monotonic())
        self._sessions[_digest(token)] = session
        self.begun_total += 1
        return token

    def find(self, token: str, host: str) -> Session | None:
        """The session, if it still counts for a client at this address."""
        if len(token) > TOKEN_CHARACTERS_MAX:
            return None
        key = _digest(token)
        session = self._sessions.get(key)
        if session is None:
            return None
        if not self._counts(session):
            del self._sessions[key]
            return None
        return session if self._broker.logins.allowed_from(session.identity.name, host) else None

    def end(self, token: str) -> None:
        self._sessions.pop(_digest(token), None)

    def ends_in_s(self, session: Session) -> float:
        return max(0.0, session.began_at + self.session_s - self._broker.clock.monotonic())

    def _counts(self, session: Session) -> bool:
        identity = session.identity
        if self.ends_in_s(session) <= 0 or not identity.exists:
            return False
        if identity.expires_at is not None and identity.expires_at <= self._broker.clock.wall():
            return False
        if isinstance(identity, CatalogUser) and identity.name in self._broker.catalog.suspensions:
            return False
        return session.password_hash == self._password_hash(identity)

    def _password_hash(self, identity: Identity) -> str | None:
        if not isinstance(identity, CatalogUser):
            return None
        user = self._broker.catalog.users.get(identity.name)
        return None if user is None else user.password_hash

    def _drop_ended(self) -> None:
        while self._sessions:
            key, oldest = next(iter(self._sessions.items()))
            if self.ends_in_s(oldest) > 0:
                return
            del self._sessions[key]


def _digest(token: str) -> bytes:
    return hashlib.blake2b(token.encode("utf-8", "surrogateescape"), digest_size=32).digest()
