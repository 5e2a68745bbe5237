"""The header of the PROXY protocol, versions 1 and 2: what a proxy says about a client before its own octets.

A parser without a socket: `wanted` says how many octets may be taken next, `feed` gets them. It never asks for an octet
behind the header, so that what follows stays in the socket for the protocol that is spoken there, TLS included."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
LINE_START = b"PROXY "
# Version 1 is a line of at most 107 octets, CRLF included.
LINE_BYTES_MAX = 107
FIXED_BYTES = 16
# Addresses take up to 216 octets; the rest are extensions (TLVs), which are skipped.
HEADER_BYTES_MAX = 4096
LOCAL, PROXY = 0x20, 0x21
TCP4, TCP6 = 0x11, 0x21
UNSPECIFIED, UNIX_STREAM = 0x00, 0x31
Address = tuple[str, int]


class BadHeader(Exception):
    """These octets are no header of the PROXY protocol; the text says why."""


class Proxied(NamedTuple):
    """What a header says. A `local` connection is the proxy's own, such as a health check; `source` is None if the
    proxy does not know its client's address, or if the client came to it over a unix socket."""

    local: bool
    source: Address | None = None
    destination: Address | None = None


def is_header(first: bytes) -> bool:
    """Whether a connection's first octets begin like a header, for logs that tell who connects wrongly."""
    return len(first) >= 4 and (first[:6] == LINE_START[: len(first)] or first[:12] == SIGNATURE[: len(first)])


class HeaderParser:
    """Of one connection. A header is over when `feed` returns what it says."""

    def __init__(self) -> None:
        self._got = b""
        # How long the header is, once that is known.
        self._length = 0

    @property
    def started(self) -> bool:
        return bool(self._got)

    @property
    def wanted(self) -> int:
        """How many octets belong to the header for certain. A line has no length: it is taken octet by octet, but for
        those that the shortest one has."""
        if self._length:
            return self._length - len(self._got)
        if self._got.startswith(LINE_START):
            return 1
        if len(self._got) < len(SIGNATURE):
            return len(SIGNATURE) - len(self._got)
        return FIXED_BYTES - len(self._got)

    def feed(self, data: bytes) -> Proxied | None:
        """At most `wanted` octets. None if there is more to come; raises BadHeader."""
        self._got += data
        got = self._got
        if got.startswith(LINE_START):
            end = got.find(b"\r\n")
            if end >= 0:
                return _line(got[: end + 2])
            if len(got) >= LINE_BYTES_MAX:
                raise BadHeader(f"a line of more than {LINE_BYTES_MAX} octets")
            return None
        if got[: len(SIGNATURE)] != SIGNATURE[: len(got)] and got != LINE_START[: len(got)]:
            raise BadHeader("no header of the PROXY protocol came first")
        if len(got) == FIXED_BYTES:
            self._length = FIXED_BYTES + int.from_bytes(got[14:16])
            if self._length > HEADER_BYTES_MAX:
                raise BadHeader(f"a header of {self._length} octets; at most {HEADER_BYTES_MAX} are read")
            if got[12] not in (LOCAL, PROXY):
                raise BadHeader(f"version and command are 0x{got[12]:02x}, which is not known")
        return _binary(got) if len(got) == self._length else None


def _line(line: bytes) -> Proxied:
    words = line[:-2].split(b" ")
    if words[1] == b"UNKNOWN":
        return Proxied(False)
    if words[1] not in (b"TCP4", b"TCP6") or len(words) != 6:
        raise BadHeader("a line that is not PROXY, TCP4 or TCP6, two addresses and two ports")
    version = 4 if words[1] == b"TCP4" else 6
    source, destination = (_address(word, version) for word in words[2:4])
    return Proxied(False, (source, _port(words[4])), (destination, _port(words[5])))


def _address(word: bytes, version: int) -> str:
    try:
        address = ipaddress.ip_address(word.decode("ascii"))
    except ValueError:
        raise BadHeader("a line with an address that is none") from None
    if address.version != version or b"%" in word:
        raise BadHeader("a line whose addresses are not of the kind that it says")
    return _text(address)


def _port(word: bytes) -> int:
    # Python also reads +1, 1_0 and blanks.
    if not (word.isdigit() and len(word) <= 5 and int(word) <= 65535):
        raise BadHeader("a line with a port that is none")
    return int(word)


def _binary(header: bytes) -> Proxied:
    if header[12] == LOCAL:
        return Proxied(True)
    family = header[13]
    if family in (UNSPECIFIED, UNIX_STREAM):
        return Proxied(False)
    if family not in (TCP4, TCP6):
        raise BadHeader(f"the client's protocol is 0x{family:02x}, which is not TCP")
    size = 4 if family == TCP4 else 16
    if len(header) < FIXED_BYTES + 2 * size + 4:
        raise BadHeader("a header that is too short for its addresses")
    source, destination = header[16 : 16 + size], header[16 + size : 16 + 2 * size]
    ports = header[16 + 2 * size :]
    return Proxied(
        False,
        (_text(ipaddress.ip_address(source)), int.from_bytes(ports[:2])),
        (_text(ipaddress.ip_address(destination)), int.from_bytes(ports[2:4])),
    )


def _text(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """IPv4 within IPv6 is shown as IPv4: limits, rights and logs are to know one address by one name."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
