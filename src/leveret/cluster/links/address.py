"""Where a node is reached: a host and a port, or a unix socket on this machine. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from leveret.errors import ConfigError

PORT = 25672
UNIX = "unix:"
TEXT_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class Address:
    """Either a host with a port, or a path."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return UNIX + self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, port: int = PORT) -> Address:
    """`host`, `host:port`, `[v6]:port`, a bare IPv6 address or `unix:/path`. Raises ConfigError."""
    wanted = f"an address is host, host:port, [IPv6]:port or {UNIX}/path"
    if not text or len(text) > TEXT_CHARACTERS_MAX or not text.isprintable() or " " in text:
        raise ConfigError(f"{text[:TEXT_CHARACTERS_MAX]!r} is not the address of a node; {wanted}")
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        if not path.startswith("/"):
            raise ConfigError(f"{text!r} does not name an absolute path; {wanted}")
        return Address(path=path)
    host, said = _split(text)
    if said is not None:
        if not (said.isascii() and said.isdigit() and 0 < int(said) < 1 << 16):
            raise ConfigError(f"{text!r} has the port {said!r}; a port is 1 to 65535")
        port = int(said)
    if not host or any(character in "[]/@" for character in host):
        raise ConfigError(f"{text!r} is not the address of a node; {wanted}")
    return Address(host, port)


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return "", None
        return host, rest[1:] if rest else None
    if text.count(":") > 1:
        return text, None
    host, colon, said = text.partition(":")
    return host, said if colon else None
