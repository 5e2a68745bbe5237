"""What a node reads from other nodes, fed with frames that dice have changed: every message is within its bounds, or a
FrameError ends the connection. No other error, however the octets are cut.

Hypothesis finds its own in tests/unit/cluster/links; this looks longer, from octets that were right once."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from leveret.cluster.links.carrier import pack_carrier, unpack_carrier
from leveret.cluster.links.frames import HEAD_BYTES, MORE, FrameError, FrameReader, Kind, beat, parts
from leveret.cluster.links.hello import (
    Hello,
    Purpose,
    Welcome,
    pack_hello,
    pack_refusal,
    pack_welcome,
    unpack_hello,
    unpack_refusal,
    unpack_welcome,
)
from leveret.cluster.members.join_messages import Joined, JoinRequest, pack, unpack
from tests.fuzz.stored_records import ODD_NUMBERS, ROUNDS, SEED

ALLOWED = (Kind.HEARTBEAT, Kind.CONSENSUS, Kind.CARRIER, Kind.TRAFFIC)
FRAME_MAX, MESSAGE_MAX = 600, 1500
HELLO = Hello(bytes(range(16)), 2, 1, 1 << 50, 3, (1, 1), Purpose.TRAFFIC, "hare@two")

# What is inside frames, right, and what reads it.
INSIDES: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "hello": (pack_hello(HELLO), unpack_hello),
    "welcome": (pack_welcome(Welcome(bytes(16), 1, 1 << 50, 1, "hare@one")), unpack_welcome),
    "refusal": (pack_refusal(3, "the cluster is another one"), unpack_refusal),
    "carrier": (pack_carrier(b"a message of the engine", [b"one", b"", bytes(300)]), unpack_carrier),
    "join": (
        pack(JoinRequest("00" * 8, "11" * 24, b"request", "hare@two", "127.0.0.1:7002")),
        lambda octets: unpack(octets, JoinRequest),
    ),
    "joined": (
        pack(Joined("00" * 16, "farm", 2, b"certificate", b"authority", ("127.0.0.1:7001",))),
        lambda octets: unpack(octets, Joined),
    ),
}


def changed(dice: random.Random, octets: bytes) -> bytes:
    """A few flips, odd numbers, cuts and repetitions."""
    made = bytearray(octets)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(made) + 1)
        choice = dice.randrange(5)
        if choice == 0 and at < len(made):
            made[at] ^= 1 << dice.randrange(8)
        elif choice == 1:
            form = dice.choice([">B", ">H", ">I", ">Q"])
            odd = dice.choice(ODD_NUMBERS) & ((1 << 8 * struct.calcsize(form)) - 1)
            made[at : at + struct.calcsize(form)] = struct.pack(form, odd)
        elif choice == 2:
            del made[at : at + dice.randrange(1, 20)]
        elif choice == 3:
            made[at:at] = made[at : at + dice.randrange(1, 40)]
        else:
            made[at:at] = dice.randbytes(dice.randrange(1, 20))
    return bytes(made)


def stream(dice: random.Random) -> bytes:
    """Messages of all kinds, some of them in parts, with heartbeats in between."""
    made = bytearray()
    for _ in range(dice.randrange(1, 6)):
        octets = dice.randbytes(dice.randrange(0, 1000))
        for head, start, end in parts(dice.choice(ALLOWED[1:]), dice.randrange(3), octets, dice.randrange(50, 500)):
            made += head + octets[start:end]
            if dice.random() < 0.3:
                made += beat(Kind.HEARTBEAT, dice.getrandbits(64))
    return bytes(made)


def read(octets: bytes, cuts: random.Random) -> tuple[list[tuple[int, int, bytes]], bool]:
    """What is found, and whether it ends with a refusal; looks after the bounds at every step."""
    reader = FrameReader(ALLOWED, FRAME_MAX, MESSAGE_MAX)
    found: list[tuple[int, int, bytes]] = []
    at = 0
    while at < len(octets):
        size = cuts.randrange(1, 700)
        try:
            found += reader.feed(octets[at : at + size])
        except FrameError:
            return found, True
        at += size
        assert len(reader._rest) < HEAD_BYTES + FRAME_MAX and len(reader._gathered) <= MESSAGE_MAX
    return found, False


def test_frames_are_read_or_refused() -> None:
    dice = random.Random(SEED)
    refused = 0
    for _ in range(ROUNDS):
        octets = changed(dice, stream(dice))
        found, ended = read(octets, random.Random(dice.random()))
        refused += ended
        for kind, _, message in found:
            assert kind in ALLOWED and not kind & MORE and len(message) <= MESSAGE_MAX
            assert kind != Kind.HEARTBEAT or len(message) == 8
        assert sum(HEAD_BYTES + len(message) for _, _, message in found) <= len(octets)
        # However it is cut, the end is the same; before a refusal the one may have handed out more than the other.
        again, ended_again = read(octets, random.Random(dice.random()))
        shorter = min(len(found), len(again))
        assert ended == ended_again and found[:shorter] == again[:shorter]
        assert ended or found == again
    # These dice do change something that matters, and leave something that does not.
    assert 0 < refused < ROUNDS


@pytest.mark.parametrize("name", INSIDES)
def test_what_is_inside_is_read_or_refused(name: str) -> None:
    right, reads = INSIDES[name]
    reads(right)
    dice = random.Random(SEED)
    for _ in range(ROUNDS):
        octets = changed(dice, right)
        try:
            reads(octets)
        except FrameError as error:
            # Goes into a log: short, and without secrets.
            assert len(str(error)) < 200 and "11" * 24 not in str(error)
