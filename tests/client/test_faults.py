"""Frames are told apart however the octets arrive, and a fault strikes at its step, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.wire.codec import encode_method
from leveret.wire.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from leveret.wire.queue_methods import QueueDeclare, QueueDelete
from tests.client.faults import CUT, DROP_FRAME, OPAQUE, SLOW, Armed, Faults, Frame, FrameCutter, Step
from tests.conformance.amqp_codec import encode_frame

FRAMES = [
    Frame("protocol-header", PROTOCOL_HEADER),
    Frame("queue.declare", encode_method(1, QueueDeclare(queue="orders"))),
    Frame("header", encode_frame(2, 1, bytes(14))),
    Frame("body", encode_frame(3, 1, b"AMQP" * 100)),
    Frame("body", encode_frame(3, 1, b"")),
    Frame("heartbeat", HEARTBEAT_FRAME),
    Frame("queue.delete", encode_method(1, QueueDelete(queue="orders"))),
    # A method that nobody knows has a name for the record all the same.
    Frame("50.99", encode_frame(1, 1, b"\x00\x32\x00\x63")),
]
STREAM = b"".join(frame.octets for frame in FRAMES)


def cut_in(pieces: list[bytes]) -> tuple[list[Frame], bytes]:
    cutter = FrameCutter()
    frames = [frame for piece in pieces for frame in cutter.cut(piece)]
    return frames, cutter.rest


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_frames_are_the_same_however_they_are_chunked(cuts: list[int]) -> None:
    ends = [*sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert cut_in(pieces) == (FRAMES, b"")


def test_one_octet_at_a_time() -> None:
    assert cut_in([bytes([octet]) for octet in STREAM]) == (FRAMES, b"")


def test_half_a_frame_is_kept() -> None:
    frames, rest = cut_in([STREAM[:20]])
    assert frames == FRAMES[:1]
    assert rest == STREAM[8:20]


@pytest.mark.parametrize("strange", [b"\x16\x03\x01", b"GET / HTTP/1.1", b"AMXP0091", b"\x01\x00\x00\xff\xff\xff\xff"])
def test_what_is_no_frame_is_opaque_and_so_is_all_after_it(strange: bytes) -> None:
    frames, rest = cut_in([HEARTBEAT_FRAME + strange, HEARTBEAT_FRAME])
    assert frames == [
        Frame("heartbeat", HEARTBEAT_FRAME),
        Frame(OPAQUE, strange),
        Frame(OPAQUE, HEARTBEAT_FRAME),
    ]
    assert rest == b""


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_no_octet_is_lost_or_made_up(pieces: list[bytes]) -> None:
    frames, rest = cut_in(pieces)
    assert b"".join(frame.octets for frame in frames) + rest == b"".join(pieces)


def test_a_fault_strikes_at_its_step_and_once() -> None:
    faults = Faults()
    fault = Armed(Step("client", "basic.publish", nth=2), CUT)
    faults.waiting.append(fault)
    seen = [("client", "basic.publish"), ("server", "basic.publish"), ("client", "body"), ("client", "basic.publish")]
    assert [faults.struck_by(side, name) for side, name in seen] == [None, None, None, fault]  # type: ignore[arg-type]
    assert faults.struck_by("client", "basic.publish") is None


def test_of_two_faults_for_one_step_the_younger_waits_for_the_next() -> None:
    faults = Faults()
    older, younger = (Armed(Step("client", "body"), CUT) for _ in range(2))
    faults.waiting += [older, younger]
    assert [faults.struck_by("client", "body") for _ in range(3)] == [older, younger, None]


def test_steps_and_actions_that_make_no_sense_are_refused() -> None:
    for side, name, nth, when in [
        ("broker", "body", 1, "before"),
        ("client", "queue.declaer", 1, "before"),
        ("client", "body", 0, "before"),
        ("client", "body", 1, "during"),
    ]:
        with pytest.raises(ValueError, match=r"no such step|no frame is named"):
            Step(side, name, nth, when)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be dropped"):
        Armed(Step("client", "body", when="after"), DROP_FRAME)
    with pytest.raises(ValueError, match="not slow"):
        SLOW(0)
