"""Policies and x-expires over kills: what was set stays set, and what is gone stays gone."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.client import connected
from tests.crash.policy_broker import program

_KILLS: Final = 2
_EXPIRES_MS: Final = 400

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def policy_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path, program=program(tmp_path))
    try:
        yield running
    finally:
        running.close()


def kill_when_set(broker: BrokerProcess, folder: Path, policies: list[list[object]]) -> list[list[object]]:
    """Starts the broker, kills it the moment it says that these policies are safe, and gives what it had found."""
    (folder / "done").unlink(missing_ok=True)
    (folder / "put.json").write_text(json.dumps(policies))
    broker.start()
    deadline = time.monotonic() + 20.0
    while not (folder / "done").exists():
        assert time.monotonic() < deadline, broker.log_tail()
        time.sleep(0.0005)
    broker.kill()
    found: list[list[object]] = json.loads((folder / "found.json").read_text())
    return found


def test_policies_survive_a_kill_right_after_they_were_set(policy_broker: BrokerProcess, tmp_path: Path) -> None:
    expected: list[list[object]] = []
    for number in range(_KILLS):
        put: list[list[object]] = [[f"limit-{number}", f"^q{number}$", {"max-length": number + 1}]]
        assert kill_when_set(policy_broker, tmp_path, put) == expected
        expected += put
    (tmp_path / "put.json").write_text("[]")
    policy_broker.start()
    with connected(policy_broker.port) as client:
        for number in range(_KILLS):
            client.call(1, "queue.declare", queue=f"q{number}", durable=True)
            for _ in range(_KILLS + 2):
                client.publish(1, "", f"q{number}", b"body", {"delivery_mode": 2})
            declared = client.call(1, "queue.declare", queue=f"q{number}", passive=True)
            assert declared["message_count"] == number + 1, "the policy is listed and has no effect"


def exists(broker: BrokerProcess, queue: str) -> bool:
    with connected(broker.port) as client:
        client.send(1, "queue.declare", queue=queue, passive=True)
        return client.read().name == "queue.declare-ok"


def test_an_expired_queue_stays_gone(broker: BrokerProcess) -> None:
    """And one whose time was not over gets it anew with every start, but not for ever."""
    broker.start()
    with connected(broker.port) as client:
        client.call(1, "queue.declare", queue="dead", durable=True)
        arguments = {"x-expires": _EXPIRES_MS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        client.call(1, "queue.declare", queue="short-lived", durable=True, arguments=arguments)
        client.publish(1, "", "short-lived", b"body", {"delivery_mode": 2})
        client.call(1, "queue.declare", queue="used", durable=True, arguments=arguments)
    broker.kill()
    broker.start()
    with connected(broker.port) as client:
        client.send(1, "basic.consume", queue="used")
        time.sleep(_EXPIRES_MS / 1000 + 0.5)
        broker.kill()
    broker.start()
    # The answer comes before anything can expire in this life.
    assert not exists(broker, "short-lived"), "an expired queue came back"
    assert exists(broker, "used")
    with connected(broker.port) as client:
        got = client.call(1, "basic.get", queue="dead")
        assert got.name == "basic.get-empty", "messages of an expired queue are not dead-lettered"
    time.sleep(_EXPIRES_MS / 1000 + 0.5)
    assert not exists(broker, "used")
