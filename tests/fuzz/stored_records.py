"""Stored records of every kind, and what becomes of them when somebody writes other lengths into them and seals them
again: the checksum is always right."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterator

from leveret.core.codec.properties import encode_properties
from leveret.core.log.records import sealed

SEED = int(os.environ.get("LEVERET_FUZZ_SEED", "18"))
# Interpreted, each takes a hundred times as long.
_PURE = os.environ.get("LEVERET_PURE", "") not in ("", "0")
ROUNDS = int(os.environ.get("LEVERET_FUZZ_ROUNDS", "100" if _PURE else "2000"))

MESSAGE, PAGED, NOTES, COMMAND, CLOSED, ENTRY, TRACK, SHARED, STATE, FLOOR = range(1, 11)
RAW, SUBBATCH = 1, 2
ADDRESS = b"\x06orders\x03new"
HEADERS = {"text": "value", "list": [1, 2, ["deep"]], "table": {"a": {"b": True}}, "Zahl \u00e4": 5}
PROPERTIES = encode_properties(
    content_type="text/plain", headers=HEADERS, delivery_mode=2, priority=3, expiration="60000", timestamp=5, app_id="a"
)
# What is wanted of numbers: limits of every width, and their neighbours.
ODD_NUMBERS = [0, 1, 2, 7, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFE0]
ODD_NUMBERS += [0xFFFFFFFF, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def record(kind: int, flags: int, size: int, count: int, last: bytes, inside: bytes, sequence: int = 1) -> bytearray:
    """One that is not sealed. `last` are the eight octets before what is inside."""
    head = struct.pack(">IIQBBHI8s", 0, 32 + len(inside), sequence, kind, flags, size, count, last)
    return bytearray(head + inside + bytes(-len(inside) % 8))


def message(sequence: int = 1, body: bytes = b"a body", targets: int = 2, properties: bytes = PROPERTIES) -> bytearray:
    inside = struct.pack(">Q", 1000) + ADDRESS + properties + body
    inside += b"".join(struct.pack(">QQ", 7, sequence * 10 + i) for i in range(targets))
    return record(MESSAGE, 0, len(ADDRESS), targets, struct.pack(">II", len(properties), len(body)), inside, sequence)


def notes(sequence: int = 1, count: int = 3, kind: int = 2, synced: int = 0) -> bytearray:
    inside = b"".join(struct.pack(">QQIIII", 7, i, 1, 1, 0, kind) for i in range(count))
    return record(NOTES, 0, 0, count, struct.pack(">Q", synced), inside, sequence)


def command(sequence: int = 1, payload: bytes = b"\x81\xa1a\x01", synced: int = 0) -> bytearray:
    return record(COMMAND, 0, 0, 0, struct.pack(">Q", synced), payload, sequence)


def entry(
    offset: int = 0,
    flags: int = 0,
    body: bytes = b"a body",
    extra: bytes | None = None,
    count: int = 1,
    value: bytes = b"",
) -> bytearray:
    if extra is None:
        extra = b"" if flags & RAW else struct.pack(">BI", 0, len(body)) if flags & SUBBATCH else PROPERTIES
    inside = struct.pack(">Q", 1000) + ADDRESS + extra + body + value
    return record(ENTRY, flags, len(ADDRESS), count, struct.pack(">II", len(extra), len(body)), inside, offset)


def track(offset: int = 0, items: bytes | None = None) -> bytearray:
    if items is None:
        items = struct.pack(">BBQQ", 3, 8, 1, 0) + b"".join(
            struct.pack(">BBQ", kind, 4, 5) + name for kind, name in ((1, b"prod"), (2, b"cons"))
        )
    return record(TRACK, 1, 2, 3, struct.pack(">Q", 0), items, offset)


def shared(sequence: int = 1, descriptor: bytes = b"d" * 16, payload: bytes = b"a payload") -> bytearray:
    """An entry of a consensus group: group 3, term 2, index 17."""
    inside = struct.pack(">QQ", 2, 17) + descriptor + payload
    return record(SHARED, 0, len(descriptor), 0, struct.pack(">Q", 3), inside, sequence)


def state(sequence: int = 1) -> bytearray:
    return record(STATE, 0, 0, 0, struct.pack(">Q", 3), struct.pack(">QQQ", 2, 1 << 32, 17), sequence)


def floor(sequence: int = 1, voters: int = 3, learners: int = 1) -> bytearray:
    inside = struct.pack(">QQ", 2, 16) + b"".join(struct.pack(">Q", i << 32) for i in range(voters + learners))
    return record(FLOOR, 1, voters, learners, struct.pack(">Q", 3), inside, sequence)


VALID: dict[str, Callable[[], bytearray]] = {
    "message": message,
    "notes": notes,
    "command": command,
    "closed": lambda: record(CLOSED, 0, 0, 0, bytes(8), b""),
    "entry": entry,
    "entry with a filter value": lambda: entry(value=b"value"),
    "entry of the stream protocol": lambda: entry(flags=RAW),
    "sub-batch": lambda: entry(flags=SUBBATCH, body=b"\0\0\0\x01a\0\0\0\x02bc", count=2),
    "track": track,
    "shared": shared,
    "state": state,
    "floor": floor,
}


def changed(original: bytearray, at: int, form: str, value: int) -> bytearray:
    made = bytearray(original)
    struct.pack_into(form, made, at, value)
    return made


# Where each kind's properties start.
_PROPERTIES_AT = 40 + len(ADDRESS)


def misshapen() -> Iterator[tuple[str, bytearray]]:
    """Each with one thing in it that does not fit."""
    for name, made in (("message", message()), ("entry", entry())):
        yield f"{name}: an address beyond the end", changed(made, 18, ">H", 0x0FFF)
        yield f"{name}: an address that ends elsewhere", changed(made, 40, ">B", 5)
        yield f"{name}: no address", changed(made, 18, ">H", 0)
        for size in (0, 1, len(PROPERTIES) - 1, len(PROPERTIES) + 1, 0x7FFFFFFF, 0xFFFFFFFF):
            yield f"{name}: properties of {size}", changed(made, 24, ">I", size)
        for size in (1 << 16, 0x7FFFFFFF, 0xFFFFFFFF - len(PROPERTIES) - len(ADDRESS) - 39):
            yield f"{name}: a body of {size}", changed(made, 28, ">I", size)
        yield f"{name}: a second word of flags", changed(made, _PROPERTIES_AT, ">H", 0xFFFF)
        yield f"{name}: headers beyond the end", changed(made, _PROPERTIES_AT + 13, ">I", 0xFFFFFFFF)
        yield f"{name}: headers that end elsewhere", changed(made, _PROPERTIES_AT + 13, ">I", 10)
        yield f"{name}: a header's name beyond the end", changed(made, _PROPERTIES_AT + 17, ">B", 255)
        yield f"{name}: a header of no type", changed(made, _PROPERTIES_AT + 22, ">B", 1)
        yield f"{name}: a header's text beyond the end", changed(made, _PROPERTIES_AT + 23, ">I", 0xFFFFFFFB)
        yield f"{name}: a header's name that is no text", changed(made, _PROPERTIES_AT + 18, ">B", 0xFF)
        yield f"{name}: the highest sequence", changed(made, 8, ">Q", (1 << 64) - 1)
        yield f"{name}: a moment that no clock shows", changed(made, 32, ">Q", 1 << 63)
        yield f"{name}: the length of a head", changed(made, 4, ">I", 32)
    for count in (4, 1 << 28, 0x10000003, 0xFFFFFFFF):
        yield f"message: {count} targets", changed(message(), 20, ">I", count)
    for count in (4, 1 << 27, 0x08000001, 0xFFFFFFFF):
        yield f"notes: {count} of them", changed(notes(), 20, ">I", count)
    yield "notes: one that places a message", notes(kind=1)
    yield "notes: synced up to the highest sequence", notes(synced=(1 << 64) - 1)
    yield "entry: without a message", entry(count=0)
    yield "entry: more than one message", entry(count=2)
    yield "entry: of the stream protocol with properties", entry(flags=RAW, extra=b"12345")
    yield "entry: of the stream protocol with two messages", entry(flags=RAW, count=2)
    yield "sub-batch: and a message", entry(flags=RAW | SUBBATCH)
    yield "sub-batch: without its head", entry(flags=SUBBATCH, extra=b"")
    yield "sub-batch: too many messages", entry(flags=SUBBATCH, count=0x10000)
    yield "track: a name beyond the end", changed(track(), 32 + 18 + 1, ">B", 200)
    yield "track: half an item", track(items=b"\x01\x04")
    yield "track: a batch that is no batch", changed(track(), 33, ">B", 0)
    for name, made in (("shared", shared()), ("state", state()), ("floor", floor())):
        for at, what in ((24, "group"), (32, "term"), (40, "index or vote")):
            yield f"{name}: a {what} that cannot be counted", changed(made, at, ">Q", 1 << 63)
    yield "shared: a descriptor beyond the end", changed(shared(), 18, ">H", 0xFFFF)
    yield "state: a commit index that cannot be counted", changed(state(), 48, ">Q", 1 << 63)
    yield "state: too long", record(STATE, 0, 0, 0, struct.pack(">Q", 3), bytes(32))
    yield "floor: more voters than ids", changed(floor(), 18, ">H", 4)
    yield "floor: as many learners as numbers", changed(floor(), 20, ">I", 0xFFFFFFFF)
    yield "notes: one that places a group's record", notes(kind=7)
    for kind in (0, 11, 255):
        yield f"kind {kind}", changed(message(), 16, ">B", kind)


def mutated(dice: random.Random, original: bytearray) -> bytearray:
    """One or a few places changed, mostly those where lengths stand."""
    made = bytearray(original)
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        at = dice.choice([8, 16, 17, 18, 20, 24, 28, 32, 40, *(dice.randrange(8, len(made)) for _ in range(4))])
        form = dice.choice([">B", ">H", ">I", ">Q"])
        size = struct.calcsize(form)
        if at + size <= len(made):
            struct.pack_into(
                form, made, at, dice.choice([*ODD_NUMBERS, len(made), dice.getrandbits(64)]) % (1 << 8 * size)
            )
    if dice.random() < 0.2:
        # The record says it is shorter, or its neighbour's octets are its own.
        struct.pack_into(">I", made, 4, dice.randrange(32, len(made) + 1))
    return made


def log_of(salt: int, *records: bytearray) -> bytes:
    """As a file has them, each with its checksum."""
    return b"".join(_sealed(one, salt) for one in records)


def _sealed(octets: bytearray, salt: int) -> bytes:
    """What stands behind the end that the record says it has is not sealed."""
    end = (struct.unpack_from(">I", octets, 4)[0] + 7) & ~7
    return bytes(sealed(octets[:end], salt)) + bytes(octets[end:])
