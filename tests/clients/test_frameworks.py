"""taskiq-aio-pika and faststream, frameworks on aio-pika: tasks, delays, priorities, handlers, rpc, and recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.brokers import Broker
from tests.clients.disturbances import DISTURBANCES
from tests.clients.programs import Program
from tests.clients.recovery import recovered
from tests.clients.scenarios import COME_BACK, FASTSTREAM, TASKIQ
from tests.conformance.topology import unique_name

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("program", ["taskiq"], indirect=True)
@pytest.mark.parametrize("scenario", TASKIQ)
def test_taskiq(program: Program, broker: Broker, scenario: str, tmp_path: Path) -> None:
    if broker.kind == "rabbitmq" and scenario == "delayed_exchange":
        pytest.skip("RabbitMQ has x-delayed-message by a plugin, which Debian does not ship")
    if broker.kind == "leveret" and scenario == "defaults":
        with pytest.raises(AssertionError, match="unsupported queue type 'quorum'"):
            program.run(scenario, broker, unique_name(scenario), tmp_path / "errors")
        pytest.xfail("the queues are quorum queues unless the program says otherwise; Leveret has none yet")
    assert program.run(scenario, broker, unique_name(scenario), tmp_path / "errors") == TASKIQ[scenario]


@pytest.mark.parametrize("program", ["faststream"], indirect=True)
@pytest.mark.parametrize("scenario", FASTSTREAM)
def test_faststream(program: Program, broker: Broker, scenario: str, tmp_path: Path) -> None:
    assert program.run(scenario, broker, unique_name(scenario), tmp_path / "errors") == FASTSTREAM[scenario]


@pytest.mark.parametrize("program", ["taskiq", "faststream"], indirect=True)
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_recovery(program: Program, broker: Broker, disturbance: str, tmp_path: Path) -> None:
    assert recovered(program, broker, DISTURBANCES[disturbance], tmp_path / "errors") == COME_BACK
