"""What clients say: decent sessions, and scripts in which valid, slightly wrong and senseless frames follow each other.

Every choice comes from a Chooser. Names come from a small vocabulary, so that what one frame declares the next one
finds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.conformance.amqp_codec import Typed, encode_frame, encode_method, encode_properties
from tests.conformance.amqp_methods import METHODS
from tests.conformance.raw_client import PROTOCOL_HEADER
from tests.fuzz.chooser import Chooser
from tests.fuzz.frames import FRAME_MAX, HEARTBEAT, body, handshake, header, method, publish, said, start_ok
from tests.fuzz.workbench import Line, Workbench

# What was delivered and not acked, by channel.
Tags = dict[int, list[int]]


class OddText(str):
    """A string in a table need not be UTF-8."""

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


# A queue that belongs to another connection; nobody else may touch it.
NEIGHBOURS_QUEUE: Final = "neighbour"
VOCABULARY: Final[dict[str, list[Any]]] = {
    "queue": ["q", "q", "q", "q", "r", "r", "r", "s", ""],
    "exchange": ["", "x", "y", "amq.topic", "amq.headers", "amq.fanout"],
    "destination": ["x", "y", "amq.fanout"],
    "source": ["x", "y", "amq.topic"],
    "routing_key": ["q", "q", "r", "", "a.b", "a.#", "*.b", "7"],
    "type": ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random"],
    "consumer_tag": ["c", "d", "", ""],
    "virtual_host": ["/"],
    "mechanism": ["PLAIN", "AMQPLAIN"],
    "response": [b"\0guest\0guest", b"\0slow\0right"],
    "delivery_tag": [1, 1, 2, 3, 4, 5, 6, 0],
    "prefetch_count": [0, 1, 2, 10],
    "prefetch_size": [0, 0, 1, 1000],
    "frame_max": [FRAME_MAX, 4096],
    "channel_max": [2047, 1],
    "heartbeat": [0, 60],
}
# What a decent client would not say; picked now and then.
ODDITIES: Final[dict[str, list[Any]]] = {
    "queue": ["ü", NEIGHBOURS_QUEUE, "amq.rabbitmq.reply-to", "amq.q", "a" * 255, b"\xff", "nope", "a\nb"],
    "exchange": ["amq.rabbitmq.trace", "nope", b"\xff\x00", "z" * 255],
    "destination": ["", "nope", b"\xff"],
    "source": ["", "nope", b"\xff"],
    "routing_key": [NEIGHBOURS_QUEUE, "k" * 255, b"\xfe", "a..b", "#.#"],
    "type": ["nope", "", b"\xff"],
    "consumer_tag": ["é", "t" * 255, b"\xff"],
    "virtual_host": ["nope", ""],
    "mechanism": ["EXTERNAL", "", b"\xff"],
    "response": [b"\0guest\0wrong", b"", b"\0", b"\xff\0\xff\0\xff", b"\x05LOGINS\xff\xff\xff\xff"],
    "delivery_tag": [0, 100, 2**63 - 1, 2**63, 2**64 - 1],
    "prefetch_count": [65535],
    "prefetch_size": [2**32 - 1],
    "frame_max": [0, 100, 2**32 - 1],
    "channel_max": [0, 65535],
    "heartbeat": [1, 65535],
}
INSPECTED: Final = (
    "headers", "delivery_mode", "priority", "reply_to", "expiration", "message_id", "timestamp", "user_id",
)  # fmt: skip
RARE_BITS: Final = ("durable", "passive", "exclusive", "immediate", "internal", "auto_delete", "if_unused", "if_empty")
ARGUMENTS: Final = [
    "x-max-length", "x-message-ttl", "x-single-active-consumer", "x-queue-type", "x-priority", "x-max-priority",
    "alternate-exchange", "x-dead-letter-exchange", "x-match", "hash-header", "hash-property", "h", "k", "CC", "BCC",
]  # fmt: skip
VALUES: Final[list[Any]] = [
    "a", "", "all", "any", "x", ">1000", "!=x", "classic", OddText(), True, False, 0, 1, -1, 2**31, 2**63 - 1, 0.5,
    float("nan"), float("inf"), None, b"octets", Typed(b"s", -5), Typed(b"B", 255), Typed(b"T", 2**64 - 1),
    Typed(b"D", (255, -(2**31))), Typed(b"f", 0.25), ["q", "r"], ["q", 1, None], [],
]  # fmt: skip
# Names of a client's methods, the usual ones more often.
METHOD_NAMES: Final = [
    *["basic.consume", "basic.get", "basic.ack", "basic.nack", "basic.reject"] * 6,
    *["queue.declare", "queue.bind", "basic.qos", "basic.cancel", "queue.purge", "tx.commit", "queue.unbind"] * 2,
    *["queue.delete", "exchange.declare", "exchange.delete", "exchange.bind", "exchange.unbind", "basic.recover"],
    *["tx.select", "tx.rollback", "confirm.select", "channel.flow", "channel.close"],
]
# What a client has no business to say on a channel, or at all.
MISPLACED_NAMES: Final = sorted(METHODS)
CHANNELS: Final = [1, 1, 1, 1, 2, 2, 0, 3, 2047, 2048, 65535]


def write_value(chooser: Chooser, depth: int = 0) -> Any:
    kind = chooser.number(0, 9)
    if kind == 0 and depth < 3:
        return write_table(chooser, depth + 1)
    if kind == 1 and depth < 3:
        return [write_value(chooser, depth + 1) for _ in range(chooser.number(0, 3))]
    return chooser.pick(VALUES)


def write_table(chooser: Chooser, depth: int = 0) -> dict[str, Any]:
    return {chooser.pick(ARGUMENTS): write_value(chooser, depth) for _ in range(chooser.pick([0] * 8 + [1, 1, 2, 4]))}


def write_field(chooser: Chooser, name: str, kind: str, tags: Tags, channel: int) -> Any:
    if name == "delivery_tag" and tags.get(channel) and chooser.number(0, 15) < 15:
        tag = chooser.pick(tags[channel])
        tags[channel].remove(tag)
        return tag
    if name in VOCABULARY:
        return chooser.pick((ODDITIES if chooser.number(0, 24) == 24 else VOCABULARY)[name])
    if kind == "bit":
        return chooser.number(0, 9) == 9 if name in RARE_BITS else chooser.number(0, 1) == 1
    if kind == "table":
        return write_table(chooser)
    if kind in ("shortstr", "longstr"):
        return chooser.octets(20)
    return chooser.number(0, 3)


def write_method(chooser: Chooser, names: Sequence[str], channel: int, tags: Tags) -> bytes:
    name = chooser.pick(names)
    if name in ("basic.ack", "basic.nack", "basic.reject") and not tags.get(channel) and chooser.number(0, 7) < 7:
        name = "basic.get"
    fields = {field: write_field(chooser, field, kind, tags, channel) for field, kind in METHODS[name].fields}
    return encode_frame(1, channel, encode_method(name, fields))


def write_properties(chooser: Chooser) -> dict[str, Any]:
    """Any properties at all; the ones the broker acts on more often."""
    chosen: dict[str, Any] = {}
    for name in (
        "headers",
        "delivery_mode",
        "priority",
        "reply_to",
        "expiration",
        "message_id",
        "timestamp",
        "user_id",
    ):
        if chooser.number(0, 3) == 0:
            chosen[name] = {
                "headers": write_table(chooser) if name == "headers" else None,
                "delivery_mode": chooser.pick([1, 2, 0, 255]),
                "priority": chooser.pick([0, 9, 255]),
                "timestamp": chooser.pick([0, 2**64 - 1]),
                "user_id": chooser.pick(["guest", "guest", "other"]),
                "expiration": chooser.pick(["1000", "1000", "", "-1", "never", b"\xff"]),
                "reply_to": chooser.pick(["amq.rabbitmq.reply-to", "q", b"\xff"]),
            }.get(name, "m" * chooser.pick([0, 1, 255]))
    return chosen


def write_message(chooser: Chooser) -> tuple[bytes, bytes]:
    """A routing key and the raw properties of a message that the broker must take as it is."""
    key = chooser.pick([b"", b"k", b"\xff\xfe", b"k" * 255])
    properties: dict[str, Any] = {}
    for name, values in {
        "content_type": ["", "text/plain", "t" * 255],
        "content_encoding": ["gzip"],
        "headers": [write_table(chooser), {}, {"a" * 255: "b" * 3000}],
        "delivery_mode": [1, 2, 77],
        "priority": [0, 255],
        "correlation_id": ["", b"\xff\x00", "c" * 255],
        "reply_to": ["somebody"],
        "expiration": ["60000"],
        "message_id": ["m"],
        "timestamp": [0, 2**64 - 1],
        "type": ["t"],
        "user_id": ["guest"],
        "app_id": ["a"],
        "cluster_id": ["c", ""],
    }.items():
        if chooser.number(0, 2) == 0:
            properties[name] = chooser.pick(values)
    # Copies are made for these, and BCC is taken off: not as it is.
    for name in ("CC", "BCC"):
        properties.get("headers", {}).pop(name, None)
    return key, encode_properties(properties)


def write_publish(chooser: Chooser, channel: int) -> bytes:
    octets = bytes(chooser.pick([0, 1, 5, 100, 5000]))
    return publish(
        channel,
        write_field(chooser, "exchange", "shortstr", {}, channel),
        write_field(chooser, "routing_key", "shortstr", {}, channel),
        octets,
        write_properties(chooser) if chooser.number(0, 2) == 0 else {},
        frame_max=chooser.pick([4096, 4096, 10]) if len(octets) < 1000 else 4096,
        mandatory=chooser.number(0, 2) == 0,
    )


# ---- what a decent client never sends


def write_lying_content(chooser: Chooser, channel: int) -> bytes:
    """A publish whose content is not what its header says."""
    size = chooser.pick([0, 1, 5, 4096, 16 * 1024 * 1024, 16 * 1024 * 1024 + 1, 2**63 - 1, 2**64 - 1])
    raw = chooser.pick(
        [b"\x00\x00", b"", b"\x00", b"\x00\x01", b"\xff\xfe", b"\x20\x00\xff\xff\xff\xff", b"\x80\x00\xff"]
    )
    head = header(channel, size, raw, chooser.pick([60, 60, 60, 10, 0]), chooser.pick([0, 0, 0, 1]))
    start = method(channel, "basic.publish", exchange=chooser.pick(["", "x", "nope"]), routing_key="q")
    parts = [start, head, body(channel, chooser.octets(8)), encode_frame(3, channel, b"")]
    return b"".join(parts[: chooser.number(1, 4)]) if chooser.number(0, 1) else chooser.pick(parts)


def write_odd_frame(chooser: Chooser, channel: int) -> bytes:
    kind = chooser.pick([1, 2, 3, 8, 0, 4, 65, 255])
    payload = chooser.octets(30)
    size = chooser.pick(
        [len(payload), len(payload), len(payload) + 1, 4096, FRAME_MAX, FRAME_MAX + 1, 2**31, 2**32 - 1]
    )
    return struct.pack(">BHI", kind, channel, size) + payload + chooser.pick([b"\xce", b"\xce", b"\xcd", b""])


def write_table_bomb(chooser: Chooser, channel: int) -> bytes:
    """A declare whose arguments lie about their lengths or nest without end."""
    nested = b""
    for _ in range(chooser.pick([1, 31, 32, 33, 200])):
        nested = b"\x01a" + chooser.pick([b"F", b"A"]) + struct.pack(">I", len(nested)) + nested
    table = chooser.pick(
        [b"\x01aF\xff\xff\xff\xff", b"\x01aS\x7f\xff\xff\xff", b"\x01aA\x80\x00\x00\x00", b"\xff", nested]
    )
    length = chooser.pick([len(table), len(table), 2**32 - 1, 0, len(table) + 1])
    payload = struct.pack(">HHH", 50, 10, 0) + b"\x01q\x00" + struct.pack(">I", length) + table
    return encode_frame(1, channel, payload)


def spoil(chooser: Chooser, octets: bytes) -> bytes:
    """A valid utterance with something wrong in it."""
    raw = bytearray(octets)
    for _ in range(chooser.pick([1, 1, 1, 2, 5])):
        at = chooser.number(0, len(raw) - 1) if raw else 0
        match chooser.number(0, 5):
            case 0:
                raw[at : at + 1] = bytes([chooser.number(0, 255)])
            case 1:
                del raw[at : at + chooser.pick([1, 1, 4, 100])]
            case 2:
                raw[at:at] = chooser.octets(4)
            case 3:
                raw[at : at + 1] = bytes([(raw[at] ^ (1 << chooser.number(0, 7))) if raw else 0])
            case 4:
                raw = raw[:at]
            case _:
                raw += raw[at:]
    return bytes(raw)


def write_misplaced(chooser: Chooser, channel: int) -> bytes:
    return write_method(chooser, MISPLACED_NAMES, channel, {})


def write_garbage(chooser: Chooser, channel: int) -> bytes:
    return chooser.octets(40)


FAULTS: Final[list[Callable[[Chooser, int], bytes]]] = [
    write_lying_content,
    write_lying_content,
    write_odd_frame,
    write_table_bomb,
    write_misplaced,
    write_misplaced,
    write_garbage,
]


def write_utterance(chooser: Chooser, faults: int, tags: Tags) -> bytes:
    """One thing that a client says; `faults` in sixteen are wrong, and `tags` are what it could ack."""
    channel = chooser.pick(CHANNELS) if faults else chooser.pick([1, 1, 2])
    if chooser.number(0, 15) < faults:
        wrong = chooser.pick([*FAULTS, None, None])
        return wrong(chooser, channel) if wrong else spoil(chooser, write_utterance(chooser, 0, {}))
    match chooser.number(0, 7):
        case 0 | 1 | 2:
            return write_publish(chooser, channel)
        case 3:
            return HEARTBEAT
        case _:
            return write_method(chooser, METHOD_NAMES, channel, tags)


def write_stage(chooser: Chooser) -> bytes:
    """Two channels, two queues and two exchanges with something in them, and perhaps a consumer."""
    modes = [b"", b"", method(1, "confirm.select"), method(1, "tx.select")]
    return (
        handshake(chooser.pick([FRAME_MAX, 4096]), heartbeat=chooser.pick([0, 10]))
        + method(1, "channel.open")
        + method(2, "channel.open")
        + method(1, "exchange.declare", exchange="x", type=chooser.pick(["topic", "headers", "direct"]))
        + method(1, "exchange.declare", exchange="y", type="fanout")
        + method(1, "queue.declare", queue="q", arguments=chooser.pick([{}, {}, {"x-single-active-consumer": True}]))
        + method(2, "queue.declare", queue="r", exclusive=True)
        + method(2, "queue.bind", queue="q", exchange="x", routing_key="a.*")
        + method(2, "queue.bind", queue="r", exchange="y")
        + method(2, "exchange.bind", destination="y", source="x", routing_key="#.b")
        + chooser.pick(modes)
        + publish(1, "", "q", b"m") * 3
        + chooser.pick([b"", method(2, "basic.consume", queue="q", consumer_tag="c", no_ack=chooser.number(0, 3) == 0)])
    )


def write_opening(chooser: Chooser) -> bytes:
    """How far a client gets before the script begins: mostly all the way."""
    if chooser.number(0, 3) < 3:
        return write_stage(chooser)
    wrong = start_ok(password="wrong")
    return chooser.pick(
        [handshake(), PROTOCOL_HEADER + start_ok(), PROTOCOL_HEADER + wrong, PROTOCOL_HEADER, b"", b"AMQP\x00\x00\x09"]
    )


def converse(chooser: Chooser, line: Line, faults: int, count: int) -> None:
    """Speaks to a broker and listens; `line.spoken` has all of it afterwards. Acks mostly name what was delivered, and
    a channel that was closed is mostly opened anew, so that the script does not end there."""
    tags: Tags = {}
    heard = 0
    for _ in range(count):
        if line.ended is not None or line.closing:
            break
        news, heard = bytes(line.heard[heard:]), len(line.heard)
        for told in said(news):
            if told.name in ("basic.deliver", "basic.get-ok"):
                tags.setdefault(told.channel, []).append(told["delivery_tag"])
            elif told.name == "channel.close" and chooser.number(0, 7) < 7:
                tags.pop(told.channel, None)
                line.say(method(told.channel, "channel.close-ok") + method(told.channel, "channel.open"))
        utterance = write_utterance(chooser, faults, tags)
        step = chooser.pick([len(utterance) or 1, len(utterance) or 1, 1, 5, 64])
        line.say(*(utterance[at : at + step] for at in range(0, len(utterance), step)))


def write_session(chooser: Chooser) -> bytes:
    """All that a client says which means well, though it may ask for what it cannot have."""
    with Workbench() as bench:
        line = bench.connect()
        line.say(write_stage(chooser))
        converse(chooser, line, 0, chooser.number(0, 25))
        if line.ended is None:
            line.say(chooser.pick([b"", b"", method(1, "channel.close"), method(0, "connection.close")]))
        return bytes(line.spoken)
