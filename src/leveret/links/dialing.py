"""Opens connections for links: to another broker, or to this very one without the network.

Reads URIs as RabbitMQ's shovel and federation write them, with their query keys. Never retries: the supervisor does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ssl import CERT_NONE, create_default_context
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from leveret.catalog.parameters import direct_vhost, without_login
from leveret.client.errors import ClientError, ConnectionFailed
from leveret.client.options import EXTERNAL, Options
from leveret.client.transport.channel import Channel
from leveret.client.transport.handshake import open_link
from leveret.client.transport.link import Link
from leveret.client.url import parse_url

__all__ = ["Dialed", "Dialer", "LocalLogin", "OpenLocal"]

HEARTBEAT_S = 10.0
DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class LocalLogin:
    """A connection inside this broker. Without a user it has every right in the virtual host, as in RabbitMQ; a user
    without a password is taken at the URI's word, since it only gives up rights."""

    vhost: str
    user: str | None
    password: str | None


OpenLocal = Callable[[LocalLogin, Options], Awaitable[Link]]


@dataclass(frozen=True, slots=True)
class Dialed:
    link: Link
    # The URI without its login, to be shown; and as it is.
    shown: str
    uri: str = field(repr=False)

    async def channel(self) -> Channel:
        return await Channel.open(self.link, DEADLINE_S)


class Dialer:
    def __init__(self, open_local: OpenLocal) -> None:
        self._open_local = open_local

    async def dial(self, uris: Sequence[str], first: int, vhost: str, name: str) -> tuple[Dialed, int]:
        """Tries each URI once, beginning with that number; the connection, and the number of the URI that worked.
        Raises what the last of them failed with."""
        failure: ClientError = ConnectionFailed("no URI is given")
        for step in range(len(uris)):
            number = (first + step) % len(uris)
            try:
                return await self._dial_one(uris[number], vhost, name), number
            except ClientError as error:
                failure = error
        raise failure

    async def _dial_one(self, uri: str, vhost: str, name: str) -> Dialed:
        local = direct_vhost(uri)
        options = read_query(uri, name)
        shown = without_login(uri)
        if local is None:
            address = msgspec.structs.replace(parse_url(uri.partition("?")[0]), options=())
            return Dialed(await open_link(address, options), shown, uri)
        parts = urlsplit(uri)
        user = None if parts.username is None else unquote(parts.username)
        password = None if parts.password is None else unquote(parts.password)
        return Dialed(await self._open_local(LocalLogin(local or vhost, user, password), options), shown, uri)


def read_query(uri: str, name: str) -> Options:
    """What the query asks for. The keys were checked when the parameter was set."""
    given = dict(parse_qsl(urlsplit(uri).query, keep_blank_values=True))
    found: dict[str, Any] = {"name": name, "heartbeat": HEARTBEAT_S}
    if "heartbeat" in given:
        found["heartbeat"] = float(given["heartbeat"])
    if "connection_timeout" in given:
        found["connect_deadline_s"] = max(0.001, int(given["connection_timeout"]) / 1000)
    if "channel_max" in given:
        found["channel_max"] = int(given["channel_max"]) or 2047
    if given.get("auth_mechanism", "").lower() == EXTERNAL:
        found["auth"] = EXTERNAL
    found.update(_tls_of(uri, given))
    return Options(**found)


def _tls_of(uri: str, given: dict[str, str]) -> dict[str, Any]:
    """Certificates are verified unless `verify=verify_none` says otherwise."""
    if not uri.startswith("amqps:"):
        return {}
    found: dict[str, Any] = {}
    if "server_name_indication" in given:
        found["server_name"] = given["server_name_indication"]
    try:
        context = create_default_context(cafile=given.get("cacertfile"))
        if "certfile" in given:
            context.load_cert_chain(given["certfile"], given.get("keyfile"), given.get("password"))
    except (OSError, ValueError) as error:
        raise ConnectionFailed(
            f"a file that the URI names cannot be used: {getattr(error, 'strerror', error)}"
        ) from None
    if given.get("verify") == "verify_none":
        context.check_hostname = False
        context.verify_mode = CERT_NONE
    found["ssl"] = context
    return found
