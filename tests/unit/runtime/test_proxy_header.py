"""The header of the PROXY protocol: what it says, what is refused, and that nothing behind it is ever asked for."""

from __future__ import annotations

import ipaddress

import pytest

from leveret.runtime.proxy_header import HEADER_BYTES_MAX, SIGNATURE, BadHeader, HeaderParser, Proxied, is_header

FOUR = Proxied(False, ("203.0.113.7", 40001), ("198.51.100.1", 5672))
SIX = Proxied(False, ("2001:db8::7", 40001), ("2001:db8::1", 5672))


def binary(command: int, family: int, rest: bytes, size: int | None = None) -> bytes:
    return SIGNATURE + bytes((command, family)) + (len(rest) if size is None else size).to_bytes(2) + rest


def addresses(said: Proxied) -> bytes:
    assert said.source is not None
    assert said.destination is not None
    hosts = b"".join(ipaddress.ip_address(one[0]).packed for one in (said.source, said.destination))
    return hosts + b"".join(one[1].to_bytes(2) for one in (said.source, said.destination))


def parsed(octets: bytes, step: int = HEADER_BYTES_MAX) -> tuple[Proxied, bytes]:
    """What the header says, read in steps of so many octets, and what was not asked for."""
    parser = HeaderParser()
    while True:
        count = min(parser.wanted, step)
        assert count > 0
        taken, octets = octets[:count], octets[count:]
        assert taken, "the parser wants more than there is"
        said = parser.feed(taken)
        if said is not None:
            return said, octets


GOOD = {
    "v2 over IPv4": (binary(0x21, 0x11, addresses(FOUR)), FOUR),
    "v2 over IPv6": (binary(0x21, 0x21, addresses(SIX)), SIX),
    "v2 with extensions": (binary(0x21, 0x11, addresses(FOUR) + b"\x02\x00\x04host" + bytes(1000)), FOUR),
    "v2 of the proxy itself": (binary(0x20, 0x00, b""), Proxied(True)),
    "v2 of the proxy itself with addresses": (binary(0x20, 0x11, addresses(FOUR)), Proxied(True)),
    "v2 of an unknown client": (binary(0x21, 0x00, b""), Proxied(False)),
    "v2 of a unix socket": (binary(0x21, 0x31, bytes(216)), Proxied(False)),
    "v2 of IPv4 in IPv6": (
        binary(0x21, 0x21, ipaddress.ip_address("::ffff:203.0.113.7").packed * 2 + b"\x00\x01\x00\x02"),
        Proxied(False, ("203.0.113.7", 1), ("203.0.113.7", 2)),
    ),
    "v2 of the largest size": (
        binary(0x21, 0x11, addresses(FOUR) + bytes(HEADER_BYTES_MAX - 16 - len(addresses(FOUR)))),
        FOUR,
    ),
    "v1 over IPv4": (b"PROXY TCP4 203.0.113.7 198.51.100.1 40001 5672\r\n", FOUR),
    "v1 over IPv6": (b"PROXY TCP6 2001:db8::7 2001:db8::1 40001 5672\r\n", SIX),
    "v1 of an unknown client": (b"PROXY UNKNOWN\r\n", Proxied(False)),
    "v1 of an unknown client with addresses": (b"PROXY UNKNOWN ffff:f...f:ffff 1 2 3\r\n", Proxied(False)),
}


@pytest.mark.parametrize("step", [1, 5, HEADER_BYTES_MAX])
@pytest.mark.parametrize("name", GOOD)
def test_a_header_is_read_in_any_pieces_and_nothing_behind_it(name: str, step: int) -> None:
    octets, wanted = GOOD[name]
    behind = b"AMQP\x00\x00\x09\x01"
    assert parsed(octets + behind, step) == (wanted, behind)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"AMQP\x00\x00\x09\x01" + bytes(20), "no header"),
        (b"\x16\x03\x01" + bytes(20), "no header"),
        (b"PROXZ" + bytes(20), "no header"),
        (SIGNATURE[:-1] + bytes(20), "no header"),
        (binary(0x11, 0x11, addresses(FOUR)), "version and command are 0x11"),
        (binary(0x22, 0x11, addresses(FOUR)), "version and command are 0x22"),
        (binary(0x21, 0x12, addresses(FOUR)), "0x12, which is not TCP"),
        (binary(0x21, 0xFF, addresses(FOUR)), "0xff, which is not TCP"),
        (binary(0x21, 0x11, addresses(FOUR)[:-1]), "too short"),
        (binary(0x21, 0x21, addresses(FOUR)), "too short"),
        (binary(0x21, 0x11, addresses(FOUR), 0xFFFF), "at most 4096 are read"),
        (binary(0x21, 0x11, addresses(FOUR), HEADER_BYTES_MAX - 15), "at most 4096 are read"),
        (b"PROXY " + b"x" * 120, "more than 107"),
        (b"PROXY \r\n" + b" " * 120, "a line that is not"),
        (b"PROXY TCP5 1.2.3.4 1.2.3.4 1 1\r\n", "a line that is not"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", "a line that is not"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4  1 1\r\n", "a line that is not"),
        (b"PROXY TCP4 1.2.3.256 1.2.3.4 1 1\r\n", "address that is none"),
        (b"PROXY TCP4 localhost 1.2.3.4 1 1\r\n", "address that is none"),
        (b"PROXY TCP4 \xff 1.2.3.4 1 1 \r\n", "a line that is not"),
        (b"PROXY TCP4 \xff 1.2.3.4 1 1\r\n", "address that is none"),
        (b"PROXY TCP4 ::1 ::1 1 1\r\n", "not of the kind"),
        (b"PROXY TCP6 fe80::1%lo ::1 1 1\r\n", "not of the kind"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 1\r\n", "port that is none"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 1\r\n", "port that is none"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1_0 1\r\n", "port that is none"),
    ],
)
def test_what_is_no_header_is_refused(octets: bytes, reason: str) -> None:
    for step in (1, HEADER_BYTES_MAX):
        with pytest.raises(BadHeader, match=reason):
            parsed(octets, step)


def test_a_header_is_known_by_its_first_octets() -> None:
    assert is_header(b"PROXY TCP4 ")
    assert is_header(b"PROX")
    assert is_header(SIGNATURE)
    assert is_header(SIGNATURE[:4])
    assert not is_header(b"PRO")
    assert not is_header(b"AMQP\x00\x00\x09\x01")
