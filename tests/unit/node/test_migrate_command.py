"""`leveret migrate`: what it says, what it writes, and that the node starts with that."""

from __future__ import annotations

import json
from pathlib import Path

import pika
from click.testing import CliRunner

from leveret.node.cli import main
from leveret.node.config.loading import load_settings
from tests.unit.node.process import finished, serving


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["migrate", *map(str, arguments)], prog_name="leveret")
    return result.exit_code, result.output


def conf(tmp_path: Path, text: str = "heartbeat = 30\ndefault_user = ann\ndefault_pass = canary\n") -> Path:
    path = tmp_path / "rabbitmq.conf"
    path.write_text(text)
    return path


def definitions(tmp_path: Path) -> Path:
    path = tmp_path / "exported.json"
    queue = {"name": "q", "vhost": "/", "durable": True, "arguments": {"x-queue-type": "herring"}}
    name = {"name": "cluster_name", "value": "shop"}
    path.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue], "global_parameters": [name]}))
    return path


def test_it_writes_a_file_for_its_owner_alone_and_says_what_it_did(tmp_path: Path) -> None:
    source, output = conf(tmp_path), tmp_path / "leveret.toml"
    code, said = run(source, "-o", output)
    assert (code, said.splitlines()) == (
        0,
        [
            "taken",
            f"  {source}:1: heartbeat: as limits.heartbeat_s",
            f"  {source}:2: default_user: as auth.default_user",
            f"  {source}:3: default_pass: as auth.default_password",
            "3 taken",
            f"wrote {output}",
        ],
    )
    assert output.stat().st_mode & 0o777 == 0o600
    settings = load_settings(output, {})
    assert (settings.limits.heartbeat_s, settings.auth.default_password.reveal()) == (30, "canary")


def test_definitions_are_written_and_named_in_the_file(tmp_path: Path) -> None:
    output, made = tmp_path / "leveret.toml", tmp_path / "definitions.json"
    code, said = run(conf(tmp_path), definitions(tmp_path), "-o", output, "--definitions-out", made)
    assert code == 0
    assert "1 vhosts, 1 global parameters, 1 queues" in said
    assert "queue 'q' in vhost '/': there are no herring queues" in said
    assert json.loads(made.read_text())["queues"][0]["arguments"] == {}
    assert made.stat().st_mode & 0o777 == 0o600
    assert load_settings(output, {}).definitions.path == str(made)
    assert load_settings(output, {}).cluster_name == "shop"


def binding(source: str, **arguments: object) -> dict[str, object]:
    place = {"vhost": "/", "source": source, "destination": "q", "destination_type": "queue", "routing_key": ""}
    return {**place, "arguments": arguments}


def test_bindings_of_the_exchanges_that_every_vhost_has_need_the_setting(tmp_path: Path) -> None:
    source, output = tmp_path / "exported.json", tmp_path / "leveret.toml"
    source.write_text(json.dumps({"bindings": [binding("amq.headers", **{"x-tier": "gold"})]}))
    code, said = run(conf(tmp_path), source, "-o", output)
    assert code == 0
    assert "exchange 'amq.headers' in vhost '/': set routing.headers_ignore_x: its bindings have arguments" in said
    assert load_settings(output, {}).routing.headers_ignore_x is True
    source.write_text(json.dumps({"bindings": [binding("amq.headers", tier="gold")]}))
    assert run(conf(tmp_path), source, "-o", output, "--force")[0] == 0
    assert load_settings(output, {}).routing.headers_ignore_x is False


def test_check_writes_nothing_and_tells_by_its_status(tmp_path: Path) -> None:
    assert run(conf(tmp_path), "--check", "-o", tmp_path / "out.toml")[0] == 0
    assert not (tmp_path / "out.toml").exists()
    assert run(conf(tmp_path), definitions(tmp_path), "--check")[0] == 1
    code, said = run(conf(tmp_path, "mqtt.vhost = /\n"), "--check")
    assert (code, said.splitlines()[-1]) == (1, "1 not supported")
    assert run(conf(tmp_path, "# nothing\n"), "--check") == (0, "nothing is set\n")


def test_it_does_not_write_over_a_file_unless_told(tmp_path: Path) -> None:
    output = tmp_path / "leveret.toml"
    output.write_text("mine")
    code, said = run(conf(tmp_path), "-o", output)
    assert (code, said.splitlines()[-1]) == (2, f"leveret: {output} is there already; --force writes over it")
    assert output.read_text() == "mine"
    assert run(conf(tmp_path), "-o", output, "--force")[0] == 0
    assert "heartbeat_s = 30" in output.read_text()


def test_erlang_terms_beside_it_are_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "advanced.config").write_text("[].")
    _, said = run(conf(tmp_path), "--check")
    assert f"{tmp_path}/advanced.config is not read: it is in Erlang terms. Look through it by hand." in said
    code, said = run(tmp_path / "advanced.config", "--check")
    assert code == 2 and "in the old form of Erlang terms" in said


def test_mistakes_are_told(tmp_path: Path) -> None:
    assert run(conf(tmp_path))[0] == 2
    assert run(conf(tmp_path), "--check", "--definitions-out", "x")[0] == 2
    assert "No such file" in run(tmp_path / "none", "--check")[1]
    (tmp_path / "bad.json").write_text("{")
    code, said = run(conf(tmp_path), tmp_path / "bad.json", "--check")
    assert code == 2 and f"{tmp_path}/bad.json is no JSON" in said
    code, said = run(conf(tmp_path), "-o", tmp_path / "none" / "x.toml")
    assert code == 2 and "cannot write" in said


def test_what_is_written_is_a_good_configuration(tmp_path: Path) -> None:
    output = tmp_path / "leveret.toml"
    run(conf(tmp_path), "-o", output)
    done = finished("config", "check", "--config", str(output))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"the configuration is good: {output}\n", "")


def test_a_node_starts_with_what_was_written_and_users_keep_their_passwords(tmp_path: Path) -> None:
    source = tmp_path / "exported.json"
    # As RabbitMQ 3.10.8 exported them.
    guest_hash = "2lAewVzQBRK7iMMh50Ffz2Q08AHRWakBvjjfxf9cyb/YRsHg"
    user = {"password_hash": guest_hash, "hashing_algorithm": "rabbit_password_hashing_sha256", "limits": {}}
    queue = {"vhost": "/", "durable": True, "auto_delete": False}
    source.write_text(
        json.dumps(
            {
                "users": [{**user, "name": "ann", "tags": ["administrator"]}],
                "vhosts": [{"name": "/"}],
                "permissions": [{"user": "ann", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
                "queues": [
                    {**queue, "name": "orders", "arguments": {"x-queue-type": "herring", "x-max-length": 5}},
                    {**queue, "name": "bad", "arguments": {"x-max-length": -5}},
                ],
            }
        )
    )
    output, made = tmp_path / "leveret.toml", tmp_path / "definitions.json"
    code, said = run(conf(tmp_path, "channel_max = 7\n"), source, "-o", output, "--definitions-out", made)
    assert code == 0, said
    with serving("--config", str(output), "--host", "127.0.0.1", "--data-dir", str(tmp_path / "data")) as server:
        connection = pika.BlockingConnection(pika.URLParameters(f"amqp://ann:guest@127.0.0.1:{server.port}/"))
        channel = connection.channel()
        channel.queue_declare("orders", passive=True)
        channel.queue_declare("orders", durable=True, arguments={"x-max-length": 5})
        connection.close()
