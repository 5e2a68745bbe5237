"""Which fault strikes at which step of the protocol: steps, actions, and the list of what a test has armed.

Also cuts a stream of octets into frames, so that steps can be told apart. Never touches a socket. Used by the proxy and
its links."""

import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from leveret.wire.codec import METHODS, method_name
from leveret.wire.constants import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
)

# Who sent the frame.
Side = Literal["client", "server"]
When = Literal["before", "middle", "after"]

FRAME_BYTES_MAX: Final = 1 << 26
PROTOCOL_HEADER_BYTES: Final = 8
# What cannot be cut into frames is one step for each chunk that was read: TLS, HTTP, a broken frame and all after it.
OPAQUE: Final = "opaque"
CONTENT_NAMES: Final = {FRAME_HEADER: "header", FRAME_BODY: "body", FRAME_HEARTBEAT: "heartbeat"}
STEP_NAMES: Final = frozenset(
    {*map(method_name, METHODS), *CONTENT_NAMES.values(), "protocol-header", OPAQUE},
)


@dataclass(frozen=True)
class Step:
    """The nth frame of that name from that side, counted over all connections from when the fault is armed.

    `name` is a method such as "queue.declare", or "protocol-header", "header", "body", "heartbeat". `when` says how
    much of the frame is forwarded before the fault: nothing, half of its octets, all of it."""

    side: Side
    name: str
    nth: int = 1
    when: When = "before"

    def __post_init__(self) -> None:
        if self.side not in ("client", "server") or self.when not in ("before", "middle", "after") or self.nth < 1:
            raise ValueError(f"there is no such step: {self}")
        if self.name not in STEP_NAMES:
            raise ValueError(f"no frame is named {self.name!r}")

    def octets_before_fault(self, frame_bytes: int) -> int:
        return {"before": 0, "middle": frame_bytes // 2, "after": frame_bytes}[self.when]


@dataclass(frozen=True)
class Action:
    """What happens at a step: one of the constants below, SLOW(bytes_per_s) or SEND(octets)."""

    name: str
    bytes_per_s: int = 0
    octets: bytes = b""


# An orderly end: both sides see the end of the stream. The rest of the frame is lost.
CUT: Final = Action("cut")
# Both sides get an RST. The rest of the frame is lost.
RESET: Final = Action("reset")
# As when a cable is pulled: nothing is forwarded either way, not even that somebody closed; sockets stay open. Octets
# wait, the rest of the frame first, until proxy.thaw(); then all is forwarded, as TCP would send it again.
HALF_OPEN: Final = Action("half open")
# Nothing is read from the client any more, so that its socket's buffer fills; what the server sends is still forwarded.
STALL_READING: Final = Action("stall reading")
# The same for the server, as with a client that does not read. thaw() ends both.
STALL_SERVER: Final = Action("stall server")
# The rest of the frame is lost and everything goes on. With when="middle" the frame is torn: the receiver takes what
# comes next for the rest of it.
DROP_FRAME: Final = Action("drop frame")


def SLOW(bytes_per_s: int) -> Action:  # noqa: N802 - it stands where the constants do
    """From this frame on, at most so many octets a second each way."""
    if bytes_per_s < 1:
        raise ValueError(f"{bytes_per_s} octets a second is not slow; HALF_OPEN is")
    return Action("slow", bytes_per_s)


def SEND(octets: bytes) -> Action:  # noqa: N802 - as above
    """The client gets these octets in the place of the rest of the frame, and everything goes on. A whole frame after
    one of the server's (when="after") is something that the server seems to have said."""
    return Action("send", octets=octets)


# Octets that are no frame: neither its kind nor its end is one.
GARBAGE: Final = SEND(bytes(64))


class Armed:
    """A fault that waits for its step."""

    def __init__(self, step: Step, action: Action) -> None:
        if action == DROP_FRAME and step.when == "after":
            raise ValueError("a frame that was forwarded cannot be dropped")
        self.step = step
        self.action = action
        self.happened = threading.Event()
        self.seen_count = 0


class Faults:
    """The faults that wait, oldest first. Each strikes once."""

    def __init__(self) -> None:
        self.waiting: list[Armed] = []

    def struck_by(self, side: Side, name: str) -> Armed | None:
        """The fault for which this frame is the step, which then waits no more. One fault for a frame: if two are due,
        the younger strikes at the next such frame."""
        due = None
        for fault in self.waiting:
            if fault.step.name == name and fault.step.side == side:
                fault.seen_count += 1
                if due is None and fault.seen_count >= fault.step.nth:
                    due = fault
        if due is not None:
            self.waiting.remove(due)
        return due


class Frame(NamedTuple):
    """A frame with the name of its step, complete with head and end octet."""

    name: str
    octets: bytes


class FrameCutter:
    """Cuts what one side sends into frames; keeps the part of a frame that is not complete yet."""

    def __init__(self) -> None:
        self.rest = b""
        self.opaque = False

    def cut(self, chunk: bytes) -> Iterator[Frame]:
        octets = self.rest + chunk if self.rest else chunk
        at = 0
        while at < len(octets) and (size := self._frame_bytes(octets, at)):
            if at + size > len(octets):
                break
            yield Frame(step_name(octets, at), octets[at : at + size])
            at += size
        self.rest = octets[at:]
        if self.opaque and self.rest:
            yield Frame(OPAQUE, self.rest)
            self.rest = b""

    def _frame_bytes(self, octets: bytes, at: int) -> int:
        """Octets of the frame that starts there; 0 if that is not known yet or never will be."""
        if self.opaque:
            return 0
        if b"AMQP".startswith(octets[at : at + 4]):
            return PROTOCOL_HEADER_BYTES
        if octets[at] != FRAME_METHOD and octets[at] not in CONTENT_NAMES:
            self.opaque = True
            return 0
        if at + FRAME_HEADER_BYTES > len(octets):
            return 0
        size: int = struct.unpack_from(">I", octets, at + 3)[0]
        self.opaque = size > FRAME_BYTES_MAX
        return 0 if self.opaque else size + FRAME_OVERHEAD_BYTES


def step_name(octets: bytes, at: int) -> str:
    """Of a complete frame."""
    kind = octets[at]
    if kind == FRAME_METHOD:
        start = at + FRAME_HEADER_BYTES
        return method_name(int.from_bytes(octets[start : start + 4], "big"))
    return CONTENT_NAMES.get(kind, "protocol-header")
