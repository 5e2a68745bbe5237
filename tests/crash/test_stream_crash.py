"""Streams under crashes: `kill -9` and power loss while publishers with and without names publish, retention deletes,
and readers stand at the head, at the tail and anywhere in between.

`LEVERET_CRASH_CYCLES` and `LEVERET_CRASH_POWER_CYCLES` say how often, as in the rounds on queues."""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.crash import stream_checkers
from tests.crash.broken_broker import program
from tests.crash.broker_process import BrokerProcess
from tests.crash.power import lose_power
from tests.crash.rounds import rounds_of, seed_of
from tests.crash.stream_load import KEPT, SHORT, read_state
from tests.crash.stream_round import StreamRound
from tests.crash.volume import Volume

KILL_CYCLES: Final = int(os.environ.get("LEVERET_CRASH_CYCLES", "6")) // 2
POWER_CYCLES: Final = int(os.environ.get("LEVERET_CRASH_POWER_CYCLES", "4")) // 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("number", "cycles"), rounds_of(KILL_CYCLES) if KILL_CYCLES > 10 else [(0, KILL_CYCLES)])
def test_streams_hold_over_kills(broker: BrokerProcess, number: int, cycles: int) -> None:
    crash_round = StreamRound(broker, BrokerProcess.kill, seed_of(number))
    crash_round.run(cycles)
    before = {stream: crash_round.told.last_state(stream) for stream in (KEPT, SHORT)}
    broker.stop()
    crash_round.told.life += 1
    broker.start()
    for stream, state in before.items():
        after = read_state(broker.port, crash_round.told, stream)
        assert (after.first, after.committed, after.messages) == (state.first, state.committed, state.messages)
    assert "damage" not in broker.log.read_text(errors="replace")


@pytest.mark.parametrize(("number", "cycles"), rounds_of(POWER_CYCLES) if POWER_CYCLES > 10 else [(0, POWER_CYCLES)])
def test_streams_hold_over_power_losses(
    broker_on_volume: BrokerProcess, volume: Volume, number: int, cycles: int
) -> None:
    StreamRound(broker_on_volume, lambda it: lose_power(it, volume), seed_of(number), power_loss=True).run(cycles)
    assert "damage" not in broker_on_volume.log.read_text(errors="replace")


# ---- the harness turns red when a rule is broken


def findings_with(tmp_path: Path, breakage: str) -> set[str]:
    """The kinds of what is found in a round with a broken broker."""
    broker = BrokerProcess(tmp_path, program=program(breakage))
    crash_round = StreamRound(broker, BrokerProcess.kill, seed_of(0))
    try:
        with pytest.raises(AssertionError):
            # One kill may find nothing on its way to a confirm.
            crash_round.run(8)
    finally:
        broker.close()
    return {finding.partition(":")[0] for finding in stream_checkers.findings(crash_round.told)}


def test_kills_find_who_forgets_producers(tmp_path: Path) -> None:
    assert "twice" in findings_with(tmp_path, "forget-producers")


def test_readers_find_who_skips(tmp_path: Path) -> None:
    assert "skipped" in findings_with(tmp_path, "skip-messages")


def test_power_loss_finds_streams_that_are_not_synced(broker_on_volume: BrokerProcess, volume: Volume) -> None:
    broker_on_volume.configure({"storage": {"sync": False}})
    crash_round = StreamRound(broker_on_volume, lambda it: lose_power(it, volume), seed_of(0), power_loss=True)
    with pytest.raises(AssertionError, match=r"x (lost|vanished|ambiguous)"):
        crash_round.run(2)
