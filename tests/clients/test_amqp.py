"""amqp091-go, lapin and the Java client: the tutorials, confirms, errors, heartbeats, and recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.brokers import Broker
from tests.clients.disturbances import DISTURBANCES
from tests.clients.programs import Program
from tests.clients.recovery import recovered
from tests.clients.scenarios import AMQP, RECOVERED
from tests.conformance.topology import unique_name

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.parametrize("program", ["go", "rust", "java"], indirect=True),
]


@pytest.mark.parametrize("scenario", AMQP)
def test_scenario(program: Program, broker: Broker, scenario: str, tmp_path: Path) -> None:
    assert program.run(scenario, broker, unique_name(scenario), tmp_path / "errors") == AMQP[scenario]


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_recovery(program: Program, broker: Broker, disturbance: str, tmp_path: Path) -> None:
    assert recovered(program, broker, DISTURBANCES[disturbance], tmp_path / "errors") == RECOVERED
