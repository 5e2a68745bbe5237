"""Which nodes are there: sources of addresses, and what is behind each address.

Pure: `Discovery` is told which addresses the sources gave and what a probe of each found, and says which to probe next.
Nodes may start in any order: an address that does not answer is tried again, less and less often, and one that answers
differently than before is believed. Who becomes a member is not decided here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leveret.cluster.links.address import PORT, Address, parse_address
from leveret.cluster.links.redial import Redial
from leveret.errors import ConfigError

ADDRESSES_MAX = 256
FILE_BYTES_MAX = 1 << 16
PROBE_PAUSE_MIN_S = 0.5
PROBE_PAUSE_MAX_S = 15.0
# An address whose node is known is looked at again after so long.
KNOWN_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Listed:
    """One address of a list."""

    address: Address


@dataclass(frozen=True, slots=True)
class DnsHost:
    """All addresses of a name (A and AAAA), with one port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class DnsService:
    """The SRV records of a name."""

    name: str


@dataclass(frozen=True, slots=True)
class ListFile:
    """A file with an address on each line."""

    path: str


Source = Listed | DnsHost | DnsService | ListFile


def parse_source(text: str) -> Source:
    """`host:port` or `unix:/path` for one address, `dns:NAME` or `dns:NAME:PORT`, `srv:NAME`, `file:/path`. Raises
    ConfigError."""
    kind, colon, rest = text.partition(":")
    if colon and kind == "dns":
        address = parse_address(rest)
        return DnsHost(address.host, address.port)
    if colon and kind == "srv":
        if not rest or not rest.isascii() or not rest.isprintable() or ":" in rest or " " in rest:
            raise ConfigError(f"{text!r} names no SRV record; such as srv:_leveret._tcp.example.org")
        return DnsService(rest)
    if colon and kind == "file":
        if not rest.startswith("/"):
            raise ConfigError(f"{text!r} names no file; such as file:/etc/leveret/nodes")
        return ListFile(rest)
    return Listed(parse_address(text))


def parse_list(text: str) -> list[Address]:
    """The addresses of a file: one a line; empty lines and what follows a # are ignored. Raises ConfigError."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        said = line.partition("#")[0].strip()
        if said:
            try:
                found.append(parse_address(said, PORT))
            except ConfigError as error:
                raise ConfigError(f"line {number}: {error}") from None
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """A node that has answered."""

    node: int
    incarnation: int
    name: str
    address: Address


class _Place:
    """What is known of one address."""

    __slots__ = ("due", "found", "redial")

    def __init__(self, now: float) -> None:
        self.due = now
        self.found: Found | None = None
        self.redial = Redial(PROBE_PAUSE_MIN_S, PROBE_PAUSE_MAX_S)


class Discovery:
    """`own` is the number of this node: what leads back to it is of no interest."""

    def __init__(self, own: int) -> None:
        self._own = own
        self._places: dict[Address, _Place] = {}
        # How many addresses were left out because there were too many.
        self.left_out = 0

    def resolved(self, addresses: Iterable[Address], now: float) -> None:
        """All addresses that the sources have now: new ones are due at once, those that are gone are forgotten."""
        wanted = list(dict.fromkeys(addresses))
        self.left_out = max(0, len(wanted) - ADDRESSES_MAX)
        kept = wanted[:ADDRESSES_MAX]
        self._places = {address: self._places.get(address) or _Place(now) for address in kept}

    def due(self, now: float) -> list[Address]:
        """Which addresses to probe; each is given once until `probed` says what came of it."""
        due = [address for address, place in self._places.items() if place.due <= now]
        for address in due:
            self._places[address].due = float("inf")
        return due

    def probed(self, address: Address, found: Found | None, now: float, dice: float) -> None:
        """What is behind an address; None if nothing answers. `dice` is from 0 to 1."""
        place = self._places.get(address)
        if place is None:
            return
        place.found = found
        if found is None:
            place.due = now + place.redial.pause_s(0.0, dice)
        else:
            place.redial.failures = 0
            place.due = now + KNOWN_PAUSE_S * (0.5 + dice / 2)

    def nodes(self) -> dict[int, Found]:
        """The other nodes that have answered, by number; of several addresses of one, that of its latest life."""
        nodes: dict[int, Found] = {}
        for place in self._places.values():
            found = place.found
            if found is not None and found.node != self._own:
                before = nodes.get(found.node)
                if before is None or before.incarnation < found.incarnation:
                    nodes[found.node] = found
        return nodes
