"""Crashes under load on queues with rules: `kill -9` and power loss while messages are rejected, expire, overflow, wait
for their time, are tried again, overtake each other and are sent twice.

`LEVERET_CRASH_CYCLES` and `LEVERET_CRASH_POWER_CYCLES` say how often, as in the rounds on plain queues."""

import os
from typing import Final

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.power import lose_power
from tests.crash.rounds import SMALL_SEGMENTS, rounds_of, seed_of
from tests.crash.rules_load import Purpose
from tests.crash.rules_round import RulesRound, repeat_all
from tests.crash.volume import Volume

KILL_CYCLES: Final = int(os.environ.get("LEVERET_CRASH_CYCLES", "6")) // 2
POWER_CYCLES: Final = int(os.environ.get("LEVERET_CRASH_POWER_CYCLES", "4")) // 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("number", "cycles"), rounds_of(KILL_CYCLES) if KILL_CYCLES > 10 else [(0, KILL_CYCLES)])
def test_rules_hold_over_kills(broker: BrokerProcess, number: int, cycles: int) -> None:
    """Segments are always small: they roll, are compacted and deleted, and what they know must outlive them."""
    broker.configure(SMALL_SEGMENTS)
    crash_round = RulesRound(broker, BrokerProcess.kill, seed_of(number))
    crash_round.run(cycles)
    broker.stop()
    broker.start()
    for purpose in (Purpose.ONCE_IN_QUEUE, Purpose.ONCE_BY_EXCHANGE, Purpose.ONCE_CONSUMED):
        assert repeat_all(broker.port, crash_round.told, purpose) == 0, "a clean restart forgot what it had seen"


@pytest.mark.parametrize(("number", "cycles"), rounds_of(POWER_CYCLES) if POWER_CYCLES > 10 else [(0, POWER_CYCLES)])
def test_rules_hold_over_power_losses(
    broker_on_volume: BrokerProcess, volume: Volume, number: int, cycles: int
) -> None:
    broker_on_volume.configure(SMALL_SEGMENTS)
    RulesRound(broker_on_volume, lambda it: lose_power(it, volume), seed_of(number), power_loss=True).run(cycles)
