"""SIGTERM under load and while the broker recovers: an end in good order loses no more than a sudden one.

Also: two brokers never share a data directory, and the next one may start as soon as the last is gone."""

import signal
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.server_process import end_process
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import connected
from tests.crash.rounds import SMALL_SEGMENTS, CrashRound, seed_of

_CYCLES: Final = 4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def terminate(broker: BrokerProcess) -> None:
    """It may be hit before it listens to signals, but never needs to be killed."""
    assert broker.process is not None
    end_process(broker.process)
    assert broker.process.returncode in (0, -signal.SIGTERM), broker.log_tail()


def test_nothing_is_lost_by_ends_in_good_order(broker: BrokerProcess) -> None:
    broker.configure(SMALL_SEGMENTS)
    # Connections are closed with 320, connection forced.
    CrashRound(broker, terminate, seed_of(0), expected_refusal="connection.close 320").run(_CYCLES)


def test_a_second_broker_is_refused_until_the_first_is_gone(tmp_path: Path, broker: BrokerProcess) -> None:
    broker.start()
    second = BrokerProcess(tmp_path / "second", data_directory=broker.data_directory)
    try:
        second.spawn()
        assert second.exit_status(20.0) != 0
        assert str(broker.data_directory) in second.log_tail()
        with connected(broker.port) as client:
            client.call(1, "queue.declare", queue="undisturbed", durable=True)
        broker.kill()
        second.start()
        with connected(second.port) as client:
            client.call(1, "queue.declare", queue="undisturbed", passive=True)
    finally:
        second.close()
