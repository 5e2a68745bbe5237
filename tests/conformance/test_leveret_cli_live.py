"""What `leveret` does while things go on: follow a queue, follow events, replay with a bar; and the support bundle."""

import json
import os
import pty
import select
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret.testing import Broker
from tests.conformance.command_line import ROOT, CommandLine
from tests.conformance.topology import wait_for
from tests.http_client import Api

DEADLINE_S = 30


@pytest.fixture(scope="module")
def socket_path() -> Iterator[str]:
    """Shorter than a test's directory."""
    with tempfile.TemporaryDirectory(prefix="lev-") as directory:
        yield f"{directory}/leveret.sock"


@pytest.fixture(scope="module")
def broker(socket_path: str) -> Iterator[Broker]:
    with Broker({"listen.socket": socket_path}) as broker:
        yield broker


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


@pytest.fixture
def leveret(broker: Broker, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, ["--url", broker.management_url])


def publish(api: Api, key: str, payload: str, **properties: Any) -> None:
    body = {"properties": properties, "routing_key": key, "payload": payload, "payload_encoding": "string"}
    assert api.post("/exchanges/%2F/amq.default/publish", body).body["routed"]


def spawned(*words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "leveret", *words], stdout=subprocess.PIPE, text=True, cwd=ROOT, **more
    )


def first_lines(process: subprocess.Popen[str], stir: Any) -> list[str]:
    """What it printed until it ended by itself, while something is done again and again."""
    deadline = time.monotonic() + DEADLINE_S
    while process.poll() is None:
        assert time.monotonic() < deadline, "it did not end"
        stir()
        time.sleep(0.1)
    assert process.stdout is not None
    with process.stdout:
        return process.stdout.read().splitlines()


def test_tail(broker: Broker, api: Api) -> None:
    api.put("/queues/%2F/tailed", {"durable": True})
    process = spawned("queues", "tail", "tailed", "-n", "2", "-o", "json", "--url", broker.management_url)
    lines = first_lines(process, lambda: publish(api, "tailed", "seen"))
    assert process.returncode == 0
    assert [json.loads(line)["payload"] for line in lines] == ["seen", "seen"]
    # It took nothing.
    (first,) = api.post("/queues/%2F/tailed/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}).body
    assert (first["payload"], first["redelivered"]) == ("seen", False)


def test_tail_is_ended_by_hand(broker: Broker, api: Api) -> None:
    api.put("/queues/%2F/tailed", {"durable": True})
    process = spawned("queues", "tail", "tailed", "--url", broker.management_url, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        while not select.select([process.stdout], [], [], 0.1)[0]:
            assert process.poll() is None
            publish(api, "tailed", "seen")
        process.send_signal(signal.SIGINT)
        assert (process.wait(DEADLINE_S), process.stderr.read()) == (0, "")


def test_tail_of_nothing(leveret: CommandLine) -> None:
    ended = leveret.run("queues", "tail", "none")
    assert ended.status == 1
    assert "none" in ended.errors


def test_events(broker: Broker, api: Api) -> None:
    process = spawned("events", "-n", "1", "--only-vhost", "--url", broker.management_url)
    numbers = iter(range(1000))
    (line,) = first_lines(process, lambda: api.put(f"/queues/%2F/eventful-{next(numbers)}", {"durable": True}))
    assert "queue.created" in line
    assert "name=eventful-" in line


def test_replay_with_a_bar(broker: Broker, api: Api) -> None:
    """Somebody looks on: there is a bar on the terminal, and only the result in the output."""
    dead_letters(broker, api, "worked", "parked", 6)
    master, slave = pty.openpty()
    process = spawned(
        "dlq", "replay", "parked", "--rate", "6", "-o", "json", "--url", broker.management_url, stderr=slave
    )
    os.close(slave)
    seen = b""
    while process.poll() is None or select.select([master], [], [], 0)[0]:
        try:
            if select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 4096)
        except OSError:
            break
    os.close(master)
    assert process.wait(DEADLINE_S) == 0
    assert b"replaying parked" in seen
    assert process.stdout is not None
    with process.stdout:
        task = json.loads(process.stdout.read())
    assert (task["state"], task["moved"], task["remaining"]) == ("done", 6, 0)
    assert api.get("/queues/%2F/worked").body["messages"] == 6


def test_a_replay_in_the_background_is_cancelled(broker: Broker, api: Api, leveret: CommandLine) -> None:
    dead_letters(broker, api, "worked2", "parked2", 5)
    task = leveret("dlq", "replay", "parked2", "--rate", "0.5", "--detach", "-o", "json").json
    assert task["state"] == "running"
    assert task["id"] in leveret("dlq", "tasks").out
    leveret("dlq", "tasks", "--cancel", task["id"])
    wait_for("it to stop", lambda: api.get(f"/tasks/{task['id']}").body["state"] == "cancelled")
    elsewhere = ("dlq", "replay", "parked2", "--to", "target", "--routing-key", "worked2", "--limit", "1")
    assert leveret(*elsewhere, "-o", "json").json["moved"] == 1


def dead_letters(broker: Broker, api: Api, queue: str, lot: str, count: int) -> None:
    api.put(f"/queues/%2F/{lot}", {"durable": True})
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": lot}
    api.put(f"/queues/%2F/{queue}", {"durable": True, "arguments": arguments})
    for _ in range(count):
        publish(api, queue, "refused", delivery_mode=2)
    asked = {"count": count, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(api.post(f"/queues/%2F/{queue}/get", asked).body) == count
    assert api.get(f"/queues/%2F/{lot}").body["messages"] == count


# ---- the bundle


def test_a_bundle_has_everything_but_secrets(broker: Broker, api: Api, tmp_path: Path, socket_path: str) -> None:
    api.put("/users/holder", {"password": "s3cret-of-user", "tags": "management"})
    hashed = api.get("/users/holder").body["password_hash"]
    upstream = {"value": {"uri": ["amqp://u:s3cret-of-uri@there", "amqps://v:s3cret@2@there"]}}
    api.put("/parameters/federation-upstream/%2F/up", upstream)
    api.put("/queues/%2F/full", {"durable": True})
    publish(api, "full", "s3cret-of-message")
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": "worker", "api_key": "s3cret-of-client"}
    file = tmp_path / "bundle.tar.gz"
    leveret = CommandLine(tmp_path, ["--socket", socket_path])
    with pika.BlockingConnection(parameters):
        assert leveret("support-bundle", str(file)).errors == f"wrote {file}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as archive:
        parts = {entry.name.split("/")[1]: archive.extractfile(entry).read().decode() for entry in archive}  # type: ignore[union-attr]
    everything = "\n".join(parts.values())
    assert "s3cret" not in everything
    assert hashed not in everything
    assert [user["name"] for user in json.loads(parts["definitions.json"])["users"]] == ["guest", "holder"]
    assert "amqp://u:***@there" in parts["definitions.json"]
    assert "amqps://v:***@there" in parts["definitions.json"]
    properties = json.loads(parts["connections.json"])[0]["client_properties"]
    assert set(properties) == {"connection_name", "product", "platform", "version"}
    assert {queue["name"] for queue in json.loads(parts["queues.json"])} >= {"full"}
    assert "rabbitmq_identity_info" in parts["metrics.txt"]
    assert "log_level" in parts["config.toml"]
    assert "problems.txt" not in parts
    again = leveret.run("support-bundle", str(file))
    assert again.status == 1
    assert "exists already" in again.errors


def test_a_bundle_from_afar_says_what_it_lacks(leveret: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "afar.tar.gz"
    assert "1 parts are missing" in leveret("support-bundle", str(file)).errors
    with tarfile.open(file) as archive:
        assert "afar/problems.txt" in archive.getnames()
        assert "afar/config.toml" not in archive.getnames()
