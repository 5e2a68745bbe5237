"""Headers of the PROXY protocol: whatever comes, in whatever pieces, is read alike, within bounds, or refused."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from leveret.runtime.proxy_header import HEADER_BYTES_MAX, SIGNATURE, BadHeader, HeaderParser, Proxied

hosts = st.ip_addresses(v=4) | st.ip_addresses(v=6)
ports = st.integers(0, 65535)
beginnings = st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", b"PROXY UNKNOWN", SIGNATURE, SIGNATURE + b"\x21\x11\x00"])


def outcome(octets: bytes, steps: Iterator[int]) -> tuple[Proxied | str | None, int]:
    """What the header says, why it is refused, or None if it is not complete; and how many octets were taken."""
    parser, at = HeaderParser(), 0
    while at < len(octets):
        piece = octets[at : at + min(parser.wanted, next(steps))]
        at += len(piece)
        try:
            said = parser.feed(piece)
        except BadHeader as error:
            return str(error), at
        if said is not None:
            return said, at
    return None, at


def always(step: int) -> Iterator[int]:
    while True:
        yield step


@given(beginnings, st.binary(max_size=300), st.integers(1, 20))
def test_any_octets_are_read_alike_in_any_pieces(beginning: bytes, rest: bytes, step: int) -> None:
    octets = beginning + rest
    at_once, taken = outcome(octets, always(len(octets) + 1))
    in_pieces, _ = outcome(octets, always(step))
    assert in_pieces == at_once
    assert taken <= HEADER_BYTES_MAX


@given(hosts, ports, ports, st.binary(max_size=200), st.integers(1, 40))
def test_addresses_come_through(host: object, source: int, destination: int, behind: bytes, step: int) -> None:
    packed: bytes = host.packed  # type: ignore[attr-defined]
    body = packed * 2 + source.to_bytes(2) + destination.to_bytes(2)
    family = 0x11 if len(packed) == 4 else 0x21
    two = SIGNATURE + bytes((0x21, family)) + len(body).to_bytes(2) + body
    kind = "TCP4" if len(packed) == 4 else "TCP6"
    one = f"PROXY {kind} {host} {host} {source} {destination}\r\n".encode()
    mapped = getattr(host, "ipv4_mapped", None)
    wanted = str(mapped or host)
    for header in (one, two):
        said, taken = outcome(header + behind, always(step))
        assert said == Proxied(False, (wanted, source), (wanted, destination))
        assert taken == len(header)
