"""Who is it that asks? A password or a token in the Authorization header; or, over the local socket, the process on the
other side, which the kernel vouches for."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from leveret.auth.identity import Identity
from leveret.broker.broker import Broker
from leveret.core.codec.names import name_text
from leveret.errors import LoginRefused
from leveret.management.http.errors import HttpError
from leveret.runtime.log import get_logger
from leveret.runtime.peers.unix_sockets import own_user, user_of_peer

log = get_logger(__name__)

CHALLENGE = {"WWW-Authenticate": 'Basic realm="Leveret Management"'}


class Operator(Identity):
    """The broker's own user, or root, on the same machine: every operation is allowed."""

    name = "local operator"
    tags = ("administrator",)
    exists = True

    def may_enter(self, vhost: str) -> bool:
        return True

    def allows(self, kind: str, vhost: str, name: str) -> bool:
        return True

    def has_topics(self, vhost: str, exchange: str) -> bool:
        return False

    def allows_topic(self, kind: str, vhost: str, exchange: str, key: str) -> bool:
        return True


class Anonymous(Identity):
    """The caller of a route that requires no login."""

    name = ""
    tags = ()
    exists = False

    def may_enter(self, vhost: str) -> bool:
        return False

    def allows(self, kind: str, vhost: str, name: str) -> bool:
        return False

    def has_topics(self, vhost: str, exchange: str) -> bool:
        return True

    def allows_topic(self, kind: str, vhost: str, exchange: str, key: str) -> bool:
        return False


def challenge() -> HttpError:
    """The request has no credentials. Without a body, as RabbitMQ."""
    return HttpError(401, "", None, CHALLENGE)


def login_failed() -> HttpError:
    return HttpError(401, "not_authorized", "Login failed", CHALLENGE)


def session_ended() -> HttpError:
    return HttpError(401, "session_ended", "the session has ended: log in again")


async def identify(broker: Broker, header: str | None, peer_host: str) -> Identity:
    """Raises HttpError."""
    if header is None:
        raise challenge()
    scheme, _, said = header.partition(" ")
    user = "?"
    try:
        if scheme.lower() == "basic":
            user, password = _basic(said)
            return await broker.logins.authenticate(user, password, peer_host, "http")
        if scheme.lower() == "bearer":
            return await broker.logins.authenticate_token(said.strip(), peer_host, "http")
    except LoginRefused as error:
        # In the same words as logins by other protocols.
        log.warning("login refused", user=user, peer=peer_host, mechanism=f"http {scheme.lower()}", reason=error.reason)
        raise login_failed() from None
    raise challenge()


def _basic(said: str) -> tuple[str, bytes]:
    try:
        octets = base64.b64decode(said.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise LoginRefused("the header is no base64") from None
    user, colon, password = octets.partition(b":")
    if not colon:
        raise LoginRefused("the header has no password")
    return name_text(user), password


def local_operator(sock: Any) -> Identity | None:
    """For a request over the local socket; None if it is neither our own user nor root."""
    return Operator() if user_of_peer(sock) in (0, own_user()) else None
