"""`leveret storage check` and `dump`: exit statuses, what is printed, and what never is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pika
import pytest
from click.testing import CliRunner, Result

from leveret.catalog.commands import PutUser
from leveret.catalog.records import User
from leveret.node.cli import main
from leveret.node.storage_commands import _message, _message_text
from leveret.storage.inspect import StoredMessage
from leveret.testing import Broker

SECRET_HASH = "$argon2id$canary-of-a-hash"
SECRET_BODY = "canary of a body"


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
    assert line.startswith(f"DAMAGE: {segment} at ") and "records are damaged" in line
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
    assert ["/", "orders", "classic", "4", "x-max-priority=3"] in lines
    assert ["ann", "monitoring"] in lines
    assert ["/", "events", "topic", "False", "-"] in lines
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
    fields = _message(StoredMessage(7, 5, 1, "log/1.segment", 64, damaged=True), bodies=True)
    assert fields["damaged"] and "body" not in fields
    assert _message_text(fields).endswith("DAMAGED: log/1.segment at 64")


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
