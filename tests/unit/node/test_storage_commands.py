"""`leveret storage check` and `dump`: exit statuses, what is printed, and what never is."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner, Result

from leveret.catalog.commands import PutJob, PutPolicy, PutUser
from leveret.catalog.records import Policy, ReplayFilter, Reprocessing, User
from leveret.node.cli import main
from leveret.node.storage_views import message_fields, message_text
from leveret.storage.inspect import StoredMessage
from leveret.testing import Broker

SECRET_HASH = "$argon2id$canary-of-a-hash"
SECRET_BODY = "canary of a body"
# One that has ended: a running one would go on.
JOB = Reprocessing(
    "/", "plain", "job-1", "target", "", "jobs", ReplayFilter(reason="expired", deaths_max=0, body_contains=b"\xff"),
    10, 0.0, False, None, False, 1_800_000_000_000, 5, "done", 3, 2, 0, 1, 0, 1_800_000_001_500,
)  # fmt: skip


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["storage", *(str(argument) for argument in arguments)], prog_name="leveret")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "data"
    with Broker({"data_dir": str(root)}) as broker:
        broker.call(lambda node: node.broker.apply(PutUser(User("ann", SECRET_HASH, ("monitoring",)))))
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("events", "topic", durable=True)
        channel.queue_declare("orders", durable=True, arguments={"x-max-priority": 3})
        channel.queue_declare("steers\x1b[2J", durable=True)
        channel.queue_bind("orders", "events", "order.#")
        properties = pika.BasicProperties(delivery_mode=2, headers={"n": [1, b"\xff"]}, content_type="text/plain")
        for body in (SECRET_BODY.encode(), b"\xff\x00\x01", b"", "drei Körbe\n".encode()):
            channel.basic_publish("events", "order.new", body, properties)
        method, _, _ = channel.basic_get("orders")
        channel.basic_nack(method.delivery_tag)
        connection.close()
    return root


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Delayed messages in a queue and in exchanges, keys of deduplication, a policy and a job."""
    root = tmp_path_factory.mktemp("waiting") / "data"
    with Broker({"data_dir": str(root)}) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
        channel.exchange_declare("once", "x-message-deduplication", durable=True, arguments={"x-cache-size": 2})
        channel.queue_declare("jobs", durable=True, arguments={"x-max-priority": 9, "x-message-deduplication": True})
        channel.queue_declare("plain", durable=True)
        channel.queue_bind("plain", "once", "")

        def publish(exchange: str, key: str, body: bytes, **properties: Any) -> None:
            channel.basic_publish(exchange, key, body, pika.BasicProperties(delivery_mode=2, **properties))

        publish("", "jobs", b"late", headers={"x-delay": 7_200_000}, message_id="1")
        publish("", "jobs", b"soon", headers={"x-delay": 3_600_000}, message_id="2")
        publish("", "jobs", b"now", priority=4, expiration="600000", message_id="3")
        publish("", "jobs", b"again", message_id="3")
        publish("later", "", b"kept", headers={"x-delay": 3_600_000})
        for number in range(5):
            publish("once", "", b"", message_id=str(number))
        policy = Policy("/", "short", "^plain$", "queues", 1, {"max-length": 100}, set_at_ms=1_800_000_000_000)
        broker.call(lambda node: node.broker.apply(PutPolicy(policy)))
        broker.call(lambda node: node.broker.apply(PutJob(JOB)))
        connection.close()
    return root


def copy(made: Path, to: Path) -> Path:
    for path in made.rglob("*"):
        if path.is_file():
            target = to / path.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return to


def test_all_good_is_exit_0(made: Path) -> None:
    result = run("check", "--data-dir", made)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    head = next(line for line in lines if line.startswith("file"))
    assert head.split() == ["file", "records", "messages", "live", "size", "damage"]
    segment = next(line for line in lines if line.startswith("log/0000000001.segment")).split()
    assert segment[2:4] == ["4", "4"] and segment[5] == "-"
    assert lines[-1].endswith("2 durable queues with 4 messages: all good")


def test_damage_is_exit_1_with_file_and_offset(made: Path, tmp_path: Path) -> None:
    root = copy(made, tmp_path / "data")
    segment = root / "log/0000000001.segment"
    octets = bytearray(segment.read_bytes())
    at = octets.index(SECRET_BODY.encode())
    octets[at] ^= 1
    segment.write_bytes(octets)
    result = run("check", "--data-dir", root)
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if line.startswith("DAMAGE: ")]
    assert line.startswith(f"DAMAGE: {segment} at ") and "records of the log are lost" in line
    assert result.output.splitlines()[-1].endswith("1 damaged places")


def test_a_vhost_that_the_catalog_lost(made: Path, tmp_path: Path) -> None:
    root = copy(made, tmp_path / "data")
    catalog = root / "catalog/0000000001.log"
    octets = bytearray(catalog.read_bytes())
    octets[octets.index(b"PutVhost")] ^= 1
    catalog.write_bytes(octets)
    result = run("check", "--data-dir", root)
    assert result.exit_code == 1
    assert "note: a command of the catalog makes no sense without '/', which is missing" in result.output
    assert "the next start puts them into queues called leveret.recovered-" in result.output
    result = run("dump", "--data-dir", root)
    assert result.exit_code == 0 and "commands are damaged" in result.stderr


@pytest.mark.parametrize("command", ["check", "dump"])
def test_no_data_directory_is_exit_2(command: str, tmp_path: Path) -> None:
    result = run(command, "--data-dir", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"leveret: {tmp_path} is not a data directory of Leveret\n"


def test_a_running_broker_is_a_warning(tmp_path: Path) -> None:
    with Broker({"data_dir": str(tmp_path)}):
        result = run("check", "--data-dir", tmp_path)
        assert result.exit_code == 0
        assert "warning: broker " in result.stderr and "all good" in result.stdout


def test_the_default_directory_is_that_of_serve(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    copy(made, tmp_path / "leveret")
    assert run("check").exit_code == 0


def test_dump_shows_what_exists(made: Path) -> None:
    result = run("dump", "--data-dir", made)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["/", "orders", "classic", "4", "0", "x-max-priority=3"] in lines
    assert ["ann", "monitoring"] in lines
    assert ["/", "events", "topic", "False", "0", "-"] in lines
    assert ["/", "events", "queue", "orders", "order.#", "-"] in lines
    assert "\x1b" not in result.stdout and r"'steers\x1b[2J'" in result.stdout


def test_dump_as_json(made: Path) -> None:
    result = run("dump", "--data-dir", made, "-o", "json")
    tree = json.loads(result.stdout)
    assert {"name": "ann", "tags": ["monitoring"]} in tree["users"]
    orders = next(queue for queue in tree["queues"] if queue["name"] == "orders")
    assert (orders["messages"], orders["arguments"]) == (4, {"x-max-priority": 3})
    assert tree["bindings"][0]["destination_type"] == "queue"


def test_messages_of_a_queue(made: Path) -> None:
    result = run("dump", "--data-dir", made, "--queue", "orders", "-o", "json")
    messages = [json.loads(line) for line in result.stdout.splitlines()]
    assert [message["position"] for message in messages] == [1, 2, 3, 4]
    assert [message["size"] for message in messages] == [16, 3, 0, 12]
    assert messages[0]["deliveries"] == 1 and messages[3]["deliveries"] == 0
    assert (messages[0]["exchange"], messages[0]["routing_key"]) == ("events", "order.new")
    assert messages[0]["properties"] == {"content_type": "text/plain", "headers": {"n": [1, "ff"]}, "delivery_mode": 2}
    assert "body" not in messages[0]


def test_bodies_as_text_or_hex(made: Path) -> None:
    arguments = ("dump", "--data-dir", made, "--queue", "orders", "--bodies")
    messages = [json.loads(line) for line in run(*arguments, "-o", "json").stdout.splitlines()]
    bodies = [(message["encoding"], message["body"]) for message in messages]
    assert bodies == [("text", SECRET_BODY), ("hex", "ff0001"), ("text", ""), ("text", "drei Körbe\n")]
    text = run(*arguments).stdout
    assert "hex: ff0001" in text and r"text: 'drei Körbe\n'" in text
    assert len(run(*arguments, "--limit", 2).stdout.splitlines()) == 4


def test_a_damaged_message_is_named() -> None:
    fields = message_fields(StoredMessage(7, 5, 1, "log/1.segment", 64, damaged=True), bodies=True)
    assert fields["damaged"] and "body" not in fields
    assert message_text(fields).endswith("DAMAGED: log/1.segment at 64")


def test_what_waits_and_what_was_seen_is_named_by_check(waiting: Path) -> None:
    result = run("check", "--data-dir", waiting)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "exchange 'later' in vhost '/': 1 delayed messages" in lines
    assert "exchange 'once' in vhost '/': 2 keys of deduplication" in lines, "its window has room for two"
    assert "queue 'jobs' in vhost '/': 2 delayed messages, 3 keys of deduplication" in lines
    assert not [line for line in lines if "'plain'" in line or "deleted" in line or "end of the log" in line]
    assert lines[-1].endswith("2 durable queues with 8 messages: all good")
    # What the exchange keeps is alive as well.
    segments = [line.split() for line in lines if line.startswith("log/") and ".segment" in line]
    assert sum(int(cells[3]) for cells in segments) == 9


def test_delayed_messages_come_last_with_the_time_they_are_due(waiting: Path) -> None:
    arguments = ("dump", "--data-dir", waiting, "--queue", "jobs")
    now, soon, late = (json.loads(line) for line in run(*arguments, "--bodies", "-o", "json").stdout.splitlines())
    assert [message["body"] for message in (now, soon, late)] == ["now", "soon", "late"]
    assert [message["delayed"] for message in (now, soon, late)] == [False, True, True]
    assert (now["priority"], now["expiration_ms"], "due" in now) == (4, 600000, False)
    assert "arrived" not in soon and "expiration_ms" not in soon
    arrived, due, later = (datetime.fromisoformat(text) for text in (now["arrived"], soon["due"], late["due"]))
    assert abs((datetime.now(UTC) - arrived).total_seconds()) < 600
    assert 3000 < (due - arrived).total_seconds() <= 3600 < 6600 < (later - arrived).total_seconds() <= 7200
    text = run(*arguments).stdout.splitlines()
    assert f"priority 4  arrived {now['arrived']}  expires after 600000 ms" in text[0]
    assert f"priority 0  DELAYED until {soon['due']}  exchange ''  key 'jobs'" in text[1]


def test_what_an_exchange_keeps(waiting: Path) -> None:
    arguments = ("dump", "--data-dir", waiting, "--exchange", "later", "--bodies")
    (line,) = run(*arguments, "-o", "json").stdout.splitlines()
    message = json.loads(line)
    assert (message["body"], message["exchange"], message["delayed"]) == ("kept", "later", True)
    result = run("dump", "--data-dir", waiting, "--exchange", "amq.direct")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "leveret: there is no exchange that keeps messages 'amq.direct' in vhost '/'\n"
    result = run(*arguments, "--queue", "jobs")
    assert result.exit_code == 2 and "do not go together" in result.stderr


def test_policies_jobs_and_counts_of_delayed_messages(waiting: Path) -> None:
    tree = json.loads(run("dump", "--data-dir", waiting, "-o", "json").stdout)
    assert tree["policies"] == [
        {"vhost": "/", "name": "short", "operator": False, "pattern": "^plain$", "apply_to": "queues", "priority": 1,
         "set": "2027-01-15T08:00:00.000Z", "definition": {"max-length": 100}}
    ]  # fmt: skip
    (job,) = tree["jobs"]
    assert (job["queue"], job["id"], job["state"], job["moved"]) == ("plain", "job-1", "done", 2)
    assert job["filter"] == {"reason": "expired", "deaths_max": 0, "body_contains": "ff"}
    assert (job["created"], job["ended"]) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:01.500Z")
    counts = {thing["name"]: thing["delayed"] for thing in [*tree["queues"], *tree["exchanges"]]}
    assert (counts["jobs"], counts["plain"], counts["later"], counts["amq.topic"]) == (2, 0, 1, 0)
    lines = [line.split() for line in run("dump", "--data-dir", waiting).stdout.splitlines()]
    assert ["policies:", "1"] in lines and ["jobs:", "1"] in lines
    assert any(line[:4] == ["/", "plain", "job-1", "done"] for line in lines)
    assert any(line[:2] == ["/", "short"] and line[-1] == "max-length=100" for line in lines)


def test_an_unknown_queue(made: Path) -> None:
    for arguments in (("--queue", "nope"), ("--queue", "orders", "--vhost", "other")):
        result = run("dump", "--data-dir", made, *arguments)
        assert result.exit_code == 1 and "there is no durable queue" in result.stderr


def test_secrets_are_never_shown(made: Path) -> None:
    for arguments in (("check",), ("dump",), ("dump", "-o", "json"), ("dump", "--queue", "orders")):
        result = run(*arguments, "--data-dir", made)
        assert SECRET_HASH not in result.output and "argon2" not in result.output
        assert SECRET_BODY not in result.output


def test_the_command_line_starts_light() -> None:
    """Nothing of the store is imported before a command needs it."""
    code = "import sys, leveret.node.cli; print([m for m in sys.modules if m.startswith('leveret.storage')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
