"""Questions for SRV records and their answers as octets (RFC 1035, 2782). Pure; lengths from the wire are checked."""

from __future__ import annotations

import struct
from dataclasses import dataclass

SRV = 33
_IN = 1
_CNAME = 5
_HEAD = struct.Struct("!6H")
_FIXED = struct.Struct("!HHIH")
_SRV = struct.Struct("!3H")
_RESPONSE, _TRUNCATED, _WANT_RECURSION = 0x8000, 0x0200, 0x0100
_NO_SUCH_NAME = 3
DNS_NAME_OCTETS_MAX = 255
_LABEL_OCTETS_MAX = 63
_POINTERS_MAX = 32
RECORDS_MAX = 256


class DnsError(ValueError):
    """An answer that cannot be used, or that says that there is none."""


class Truncated(DnsError):
    """The answer is longer than a datagram: ask over TCP."""


@dataclass(frozen=True, slots=True, order=True)
class Service:
    """Lower priorities come first."""

    priority: int
    weight: int
    port: int
    target: str


def question(number: int, name: str) -> bytes:
    """Asks for the SRV records of a name. Raises DnsError if it is none."""
    return _HEAD.pack(number, _WANT_RECURSION, 1, 0, 0, 0) + _pack_name(name) + struct.pack("!HH", SRV, _IN)


def _pack_name(name: str) -> bytes:
    try:
        labels = name.rstrip(".").encode("ascii").split(b".")
    except UnicodeEncodeError:
        raise DnsError(f"{name!r} is not a name for DNS") from None
    if any(not 0 < len(label) <= _LABEL_OCTETS_MAX for label in labels) or len(name) > DNS_NAME_OCTETS_MAX - 2:
        raise DnsError(f"{name[:DNS_NAME_OCTETS_MAX]!r} is not a name for DNS")
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


def services(number: int, name: str, octets: bytes) -> list[Service]:
    """The records of an answer, in their order of preference. Raises DnsError."""
    if len(octets) < _HEAD.size:
        raise DnsError("an answer without a head")
    got, flags, questions, answers, _, _ = _HEAD.unpack_from(octets)
    asked = question(number, name)[_HEAD.size :]
    same = octets[_HEAD.size : _HEAD.size + len(asked)].lower() == asked.lower()
    if got != number or not flags & _RESPONSE or questions != 1 or not same:
        raise DnsError("an answer to another question")
    if flags & _TRUNCATED:
        raise Truncated("the answer is longer than a datagram")
    code = flags & 0xF
    if code:
        raise DnsError(f"{name} does not exist" if code == _NO_SUCH_NAME else f"the server refuses with code {code}")
    if answers > RECORDS_MAX:
        raise DnsError(f"an answer with {answers} records, at most {RECORDS_MAX}")
    return sorted(_records(octets, _HEAD.size + len(asked), answers))


def _records(octets: bytes, place: int, count: int) -> list[Service]:
    found = []
    for _ in range(count):
        _, place = _name(octets, place)
        if place + _FIXED.size > len(octets):
            raise DnsError("an answer that ends within a record")
        kind, family, _, length = _FIXED.unpack_from(octets, place)
        place += _FIXED.size
        if place + length > len(octets):
            raise DnsError("an answer that ends within a record")
        if (kind, family) == (SRV, _IN):
            if length <= _SRV.size:
                raise DnsError(f"an SRV record of {length} octets")
            priority, weight, port = _SRV.unpack_from(octets, place)
            target, _ = _name(octets, place + _SRV.size)
            # A target of nothing says that there is no such service.
            if target and port:
                found.append(Service(priority, weight, port, target))
        elif kind != _CNAME:
            raise DnsError(f"an answer with a record of kind {kind}")
        place += length
    return found


def _name(octets: bytes, place: int) -> tuple[str, int]:
    """A name, and where what follows it begins."""
    labels: list[str] = []
    size, pointers, after = 0, 0, 0
    while True:
        if place >= len(octets):
            raise DnsError("a name that does not end")
        length = octets[place]
        if length & 0xC0 == 0xC0:
            pointers += 1
            if place + 1 >= len(octets) or pointers > _POINTERS_MAX:
                raise DnsError("a name that does not end")
            after = after or place + 2
            place = (length & 0x3F) << 8 | octets[place + 1]
            continue
        if length & 0xC0:
            raise DnsError("a label of an unknown kind")
        place += 1
        if length == 0:
            return ".".join(labels), after or place
        size += length + 1
        if size > DNS_NAME_OCTETS_MAX or place + length > len(octets):
            raise DnsError("a name that is too long")
        label = octets[place : place + length].decode("ascii", "replace")
        if not label.isprintable() or "\ufffd" in label or "." in label:
            raise DnsError("a name with characters that cannot be in one")
        labels.append(label)
        place += length
