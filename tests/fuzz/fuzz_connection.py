"""A coverage-guided fuzz of one connection with Atheris, over the interpreted data plane.

    python -m tests.fuzz.fuzz_connection -runs=20000          seeds are made afresh each time
    python -m tests.fuzz.fuzz_connection PATH/TO/crash-...    replays one input

The first octet of an input says how far the client has got before the fuzzer's octets begin, the second how they are
cut. Anything but a clean refusal fails: an error that leaves the session or stands in its log, an answer that is no
conversation, something left behind; and by libFuzzer's own limits too much time or memory."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

# The fuzzer sees into Python, not into C. The finder of the interpreted modules must be in place before the fuzzer's
# own, or they would be imported past it.
os.environ["LEVERET_PURE"] = "1"

import atheris

import leveret

assert leveret.PURE

with atheris.instrument_imports(include=["leveret"], enable_loader_override=False):
    from tests.fuzz.chooser import DiceChooser
    from tests.fuzz.conversation import check_answers, check_mirror, check_nothing_left
    from tests.fuzz.frames import handshake, method, publish, start_ok
    from tests.fuzz.script import write_session, write_utterance
    from tests.fuzz.workbench import Workbench

HEADER: Final = b"AMQP\x00\x00\x09\x01"
STAGE: Final = (
    handshake()
    + method(1, "channel.open")
    + method(2, "channel.open")
    + method(1, "queue.declare", queue="q")
    + method(1, "exchange.declare", exchange="x", type="headers")
    + method(1, "queue.bind", queue="q", exchange="x", arguments={"a": 1})
    + publish(1, "", "q", b"m") * 3
)
CONSUMING: Final = STAGE + method(2, "basic.consume", queue="q", consumer_tag="c")
PUBLISHING: Final = STAGE + method(1, "basic.publish", routing_key="q")
OPENINGS: Final = (
    b"", HEADER, HEADER + start_ok(), handshake(), STAGE, CONSUMING, PUBLISHING, STAGE + method(1, "tx.select"),
)  # fmt: skip
STEPS: Final = (1, 3, 7, 100, 100_000)
SEEDS: Final = 300
LIMITS: Final = ("-timeout=20", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1")


def split_input(octets: bytes) -> tuple[bytes, bytes, int]:
    """The opening, what follows it, and the size of the chunks."""
    if len(octets) < 2:
        return b"", octets, 1
    return OPENINGS[octets[0] % len(OPENINGS)], octets[2:], STEPS[octets[1] % len(STEPS)]


def test_one_input(octets: bytes) -> None:
    opening, rest, step = split_input(octets)
    with Workbench() as bench:
        line = bench.connect()
        line.say(opening)
        line.say(*(rest[at : at + step] for at in range(0, len(rest), step)))
        check_answers(bytes(line.heard))
        check_mirror(bench)
        bench.advance(1)
        line.hang_up()
        check_nothing_left(bench, line, 0)


def cut_loosely(octets: bytes) -> list[bytes]:
    """Frames as their heads declare them; what is no frame stays in one piece."""
    frames, at = [], 0
    while len(octets) - at >= 8:
        size = int.from_bytes(octets[at + 3 : at + 7], "big")
        if at + size + 8 > len(octets):
            break
        frames.append(octets[at : at + size + 8])
        at += size + 8
    return [*frames, octets[at:]] if at < len(octets) else frames


def mutate(octets: bytes, size_max: int, seed: int) -> bytes:
    """Half of the time within one frame, whose size is set right again, or frame by frame; else wherever."""
    chooser = DiceChooser(seed)
    kind = chooser.number(0, 7)
    frames = cut_loosely(octets[2:])
    if kind >= 4 or len(octets) < 10 or not frames:
        return bytes(atheris.Mutate(octets, size_max))
    at = chooser.number(0, len(frames) - 1)
    if kind <= 1 and len(frames[at]) >= 8:
        payload = bytes(atheris.Mutate(frames[at][7:-1] or b"\0", max(1, min(size_max - len(octets), 4000))))
        frames[at] = frames[at][:3] + len(payload).to_bytes(4, "big") + payload + b"\xce"
    elif kind == 2:
        frames[at:at] = [write_utterance(chooser, chooser.pick([0, 2, 16]), {})]
    else:
        frames[at : at + chooser.number(0, 1)] = [chooser.pick(frames)]
    return (octets[:2] + b"".join(frames))[:size_max]


def write_seeds(folder: Path) -> None:
    """What decent and less decent clients say, one utterance and whole sessions, after each opening."""
    for seed in range(SEEDS):
        chooser = DiceChooser(seed)
        opening, step = seed % len(OPENINGS), seed // len(OPENINGS) % len(STEPS)
        if seed % 10 == 0:
            said = write_session(chooser)[:8000]
            opening = 0
        else:
            said = b"".join(write_utterance(chooser, seed % 3, {}) for _ in range(chooser.number(1, 4)))[:8000]
        (folder / f"seed-{seed:03d}").write_bytes(bytes([opening, step]) + said)


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="leveret-fuzz-") as corpus:
        given = [argument for argument in arguments[1:] if not argument.startswith("-")]
        if not given:
            write_seeds(Path(corpus))
            arguments = [*arguments, corpus]
        atheris.Setup([arguments[0], *LIMITS, *arguments[1:]], test_one_input, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
