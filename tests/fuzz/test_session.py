"""Sessions against anything that can come: valid, slightly wrong and senseless frames in any order and any chunks.

Whatever comes, the broker answers with the right close or a dropped connection and never with a mistake of its own; a
neighbour notices nothing; nothing of the connection stays behind. No sockets here: see test_sockets.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.raw_client import Method
from tests.fuzz.chooser import DiceChooser, DrawChooser
from tests.fuzz.conversation import Neighbour, check_answers, check_mirror, check_nothing_left
from tests.fuzz.differential import digest
from tests.fuzz.effort import effort, scaled
from tests.fuzz.frames import handshake
from tests.fuzz.script import converse, spoil, write_opening, write_session
from tests.fuzz.workbench import Line, Workbench

ROOT = Path(__file__).parents[2]
SEEDS_A_RUN = 400


def finish(bench: Workbench, line: Line, timers: int) -> None:
    """Lets the connection end in whatever way it would, and looks at what it leaves."""
    check_answers(bytes(line.heard))
    check_mirror(bench)
    if line.closing:
        bench.advance(3)
        assert line.ended is not None, "a closing connection was not closed in time"
    line.hang_up()
    check_nothing_left(bench, line, timers)


@effort(500)
@given(st.data(), st.sampled_from([0, 1, 2, 4, 16]))
def test_whatever_a_client_says(data: st.DataObject, faults: int) -> None:
    chooser = DrawChooser(data)
    with Workbench() as bench:
        neighbour = Neighbour(bench)
        timers = len(bench.loop.timers())
        line = bench.connect()
        line.say(write_opening(chooser))
        converse(chooser, line, faults, chooser.number(1, 20))
        neighbour.check()
        finish(bench, line, timers)
        neighbour.check()


@effort(250)
@given(st.data(), st.sampled_from([1, 3, 100, 100_000]))
def test_a_decent_session_with_something_wrong_in_it(data: st.DataObject, step: int) -> None:
    """Mutations of whole streams: lengths that lie, frames that begin in the middle of others."""
    chooser = DrawChooser(data)
    stream = spoil(chooser, write_session(chooser))
    with Workbench() as bench:
        neighbour = Neighbour(bench)
        timers = len(bench.loop.timers())
        line = bench.connect()
        line.say(*(stream[at : at + step] for at in range(0, len(stream), step)))
        neighbour.check()
        finish(bench, line, timers)
        neighbour.check()


@effort(100)
@given(st.binary(max_size=200), st.sampled_from([b"", b"AMQP\x00\x00\x09\x01", handshake(), handshake() * 2]))
def test_octets_without_sense(garbage: bytes, before: bytes) -> None:
    with Workbench() as bench:
        timers = len(bench.loop.timers())
        line = bench.connect()
        line.say(before + garbage)
        finish(bench, line, timers)


@effort(100)
@given(st.data(), st.floats(0, 12))
def test_time_passes_while_they_talk(data: st.DataObject, seconds: float) -> None:
    """Deadlines and heartbeats strike in the middle of whatever is going on; a silent client is gone in the end."""
    chooser = DrawChooser(data)
    with Workbench() as bench:
        line = bench.connect()
        line.say(write_opening(chooser))
        converse(chooser, line, 2, chooser.number(0, 4))
        bench.advance(seconds)
        converse(chooser, line, 2, chooser.number(0, 4))
        bench.advance(60)
        opened = [told.name for told in check_answers(bytes(line.heard))].count("connection.open-ok")
        if not opened or line.session._heartbeat is not None or line.closing:
            assert line.ended is not None, "a client that says nothing is still there"
        finish(bench, line, 0)


@effort(100)
@given(st.data(), st.lists(st.integers(0, 300), min_size=1, max_size=30))
def test_a_client_that_reads_in_bits(data: st.DataObject, bites: list[int]) -> None:
    """The write buffer is never empty while the session runs; what comes out in the end is what a quick reader gets."""
    stream = write_session(DrawChooser(data))
    step = len(stream) // len(bites) + 1
    with Workbench() as bench:
        quick = bench.connect()
        quick.say(stream)
        quick.hang_up()
    with Workbench() as bench:
        line = bench.connect()
        line.window = 0
        for at, bite in enumerate(bites):
            line.say(stream[at * step : (at + 1) * step])
            line.take(bite)
        line.take(None)
        assert acks_apart(bytes(line.heard)) == acks_apart(bytes(quick.heard))
        finish(bench, line, 0)


def acks_apart(heard: bytes) -> list[Method]:
    """Confirms come once a chunk, and so depend on how the stream was cut."""
    return [told for told in check_answers(heard) if told.name != "basic.ack"]


def run_seeds(first: int, count: int, pure: bool) -> list[str]:
    """What an interpreter of its own says to these scripts, a line each."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.differential", str(first), str(count)]
    path = os.pathsep.join([str(ROOT), *sys.path])
    environment = {**os.environ, "LEVERET_PURE": "1" if pure else "", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, f"seeds {first} to {first + count}, pure={pure}:\n{done.stdout[-500:]}\n{done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.compiled
@pytest.mark.timeout(2400)
def test_compiled_and_interpreted_say_the_same() -> None:
    """The same source must behave the same both ways: overflow, signs and bounds are where they could differ."""
    count = scaled(SEEDS_A_RUN)
    compiled, interpreted = run_seeds(0, count, False), run_seeds(0, count, True)
    different = [one for one, other in zip(compiled, interpreted, strict=True) if one != other]
    assert not different, f"{len(different)} scripts differ, first: {different[0]}; tests.fuzz.differential replays it"


def test_a_seed_says_the_same_twice() -> None:
    assert digest(DiceChooser(7)) == digest(DiceChooser(7))
