"""`kill -9` under load, again and again, also while the broker recovers: nothing confirmed is lost, all in order.

`LEVERET_CRASH_CYCLES` says how often. Cycles are spread over rounds with a data directory each."""

import os
from typing import Final

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.fault_scenarios import comes_marked_after_a_kill
from tests.crash.load import drain
from tests.crash.rounds import CrashRound, rounds_of, seed_of, settings_of

CYCLES: Final = int(os.environ.get("LEVERET_CRASH_CYCLES", "12"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_what_was_delivered_says_so_after_a_kill(broker: BrokerProcess) -> None:
    broker.start()
    for queue in ("first", "second", "third"):
        assert comes_marked_after_a_kill(broker, queue)


@pytest.mark.parametrize(("number", "cycles"), rounds_of(CYCLES))
def test_nothing_confirmed_is_lost_by_kills(broker: BrokerProcess, number: int, cycles: int) -> None:
    broker.configure(settings_of(number))
    history = CrashRound(broker, BrokerProcess.kill, seed_of(number)).run(cycles)
    # Everything was drained; a clean restart brings nothing of it back.
    broker.stop()
    history.life += 1
    broker.start()
    assert drain(broker.port, history) == 0, "acked messages came back after a clean restart"
