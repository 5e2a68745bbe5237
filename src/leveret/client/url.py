"""Where a broker is and how to log in: AMQP URLs, as RabbitMQ's clients read them.

    amqp://user:password@host:5672/vhost?heartbeat=30
    amqps://host/%2F

Without a path the virtual host is "/"; with an empty one, as in amqp://host/, it is "/" too, since that is what nearly
everybody means who writes it. Names and passwords are percent-encoded."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from leveret.client.errors import InvalidUrl

__all__ = ["Address", "parse_urls"]

PORTS = {"amqp": 5672, "amqps": 5671}
DEFAULT_URL = "amqp://guest:guest@localhost:5672/"


class Address(msgspec.Struct, frozen=True):
    """One broker and a login. Its text has no password in it."""

    host: str
    port: int
    tls: bool = False
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    # What the URL's query says, as it stands there.
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({'amqps' if self.tls else 'amqp'}://{self.user}@{self}/{self.vhost})"


def parse_urls(urls: str | Sequence[str]) -> list[Address]:
    """One URL, several separated by commas or spaces, or a list of them."""
    found = urls.replace(",", " ").split() if isinstance(urls, str) else list(urls)
    if not found:
        raise InvalidUrl("no URL is given")
    return [parse_url(url) for url in found]


def parse_url(url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # Its text would quote what stands in the place of the port, and that may be half of a password.
        raise InvalidUrl(
            "the URL cannot be read: is a special character of the password, the user or the host not written as %XX?"
        ) from None
    if parts.scheme not in PORTS:
        raise InvalidUrl(f"the URL's scheme is {parts.scheme!r}, not amqp or amqps")
    if parts.fragment:
        raise InvalidUrl("the URL has a part after '#': such a character in a password is written %23")
    path = parts.path[1:]
    if "/" in path:
        raise InvalidUrl("the URL names more than a virtual host after the host: a slash in its name is written %2F")
    return Address(
        host=parts.hostname or "localhost",
        port=PORTS[parts.scheme] if port is None else port,
        tls=parts.scheme == "amqps",
        user=_login(parts, parts.username),
        password=_login(parts, parts.password),
        vhost=unquote(path) or "/",
        options=tuple(parse_qsl(parts.query, keep_blank_values=True)),
    )


def _login(parts: SplitResult, given: str | None) -> str:
    if given is not None:
        return unquote(given)
    # Without any login it is RabbitMQ's guest; with half of one the other half is empty.
    return "guest" if parts.username is None else ""
