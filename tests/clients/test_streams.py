"""The Java stream client: publishing, offsets, deduplication, compression, heartbeats, and recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.brokers import Broker
from tests.clients.disturbances import DISTURBANCES
from tests.clients.programs import Program
from tests.clients.recovery import recovered
from tests.clients.scenarios import COME_BACK, STREAMS, STREAMS_SINCE
from tests.conformance.topology import unique_name

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.parametrize("program", ["java-stream"], indirect=True),
]


@pytest.mark.parametrize("scenario", STREAMS)
def test_scenario(program: Program, broker: Broker, scenario: str, tmp_path: Path) -> None:
    since = STREAMS_SINCE.get(scenario)
    if since and broker.kind == "rabbitmq" and broker.version < tuple(map(int, since.split("."))):
        pytest.skip(f"RabbitMQ has {scenario} since {since}")
    assert program.run(scenario, broker, unique_name(scenario), tmp_path / "errors") == STREAMS[scenario]


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_recovery(program: Program, broker: Broker, disturbance: str, tmp_path: Path) -> None:
    assert recovered(program, broker, DISTURBANCES[disturbance], tmp_path / "errors") == COME_BACK
