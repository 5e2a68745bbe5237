"""SRV records as octets: answers as servers give them, and everything else."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.runtime.dns.message import DnsError, Service, Truncated, question, services

NAME = "_leveret._tcp.example.org"


def packed(name: str) -> bytes:
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"


def record(target: bytes, priority: int = 0, port: int = 25672, kind: int = 33) -> bytes:
    """Of the name that the question has, by a pointer to it."""
    data = struct.pack("!3H", priority, 5, port) + target if kind == 33 else target
    return b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data


def answer(*records: bytes, number: int = 7, flags: int = 0x8180, name: str = NAME) -> bytes:
    head = struct.pack("!6H", number, flags, 1, len(records), 0, 0)
    return head + packed(name) + struct.pack("!HH", 33, 1) + b"".join(records)


def test_records_come_in_their_order_of_preference() -> None:
    # The second target ends with a pointer to "example.org" within the question.
    pointed = b"\x04hare" + struct.pack("!H", 0xC000 | (12 + len("_leveret._tcp") + 1))
    octets = answer(record(packed("b.example.org"), 20), record(pointed, 10, 7000), record(packed("x"), kind=5))
    assert services(7, NAME, octets) == [
        Service(10, 5, 7000, "hare.example.org"),
        Service(20, 5, 25672, "b.example.org"),
    ]


def test_the_question_is_what_servers_read() -> None:
    assert question(7, NAME + ".") == answer(flags=0x0100)


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"short", "head"),
        (answer(number=8), "another question"),
        (answer(flags=0x0100), "another question"),
        (answer(name="_other._tcp.example.org"), "another question"),
        (answer(flags=0x8183), "does not exist"),
        (answer(flags=0x8182), "code 2"),
        (answer(record(b"")), "SRV record of 6"),
        (answer(record(packed("a"), kind=16)), "kind 16"),
        (answer(record(packed("a"))[:-1]), "ends within"),
        (answer(record(b"\xc0\xff")), "does not end"),
        (answer(record(struct.pack("!H", 0xC000 | (12 + len(packed(NAME)) + 4 + 18)))), "does not end"),
        (answer(record(b"\x3f" + b"a" * 10)), "too long"),
        (answer(record(b"\x80a\0")), "unknown kind"),
        (answer(record(b"\x02a\n\0")), "cannot be in one"),
    ],
)
def test_what_is_wrong_is_named(octets: bytes, why: str) -> None:
    with pytest.raises(DnsError, match=why):
        services(7, NAME, octets)


def test_an_answer_that_was_cut_is_told_apart_and_no_service_is_none() -> None:
    with pytest.raises(Truncated):
        services(7, NAME, answer(flags=0x8380))
    assert services(7, NAME, answer(record(b"\0"))) == []


@given(st.binary(max_size=200))
def test_garbage_is_a_dns_error(tail: bytes) -> None:
    for octets in (tail, answer(tail), answer(record(tail))):
        with suppress(DnsError):
            services(7, NAME, octets)


@pytest.mark.parametrize("name", ["", "a..b", "x" * 64, "ä.org", ".".join(["x" * 60] * 5)])
def test_what_is_no_name_is_not_asked_for(name: str) -> None:
    with pytest.raises(DnsError):
        question(1, name)
