"""Reading the configuration again: what changes, what waits for a restart, and what a bad file does (nothing)."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from leveret.errors import ConfigError, StartupError
from leveret.node.config.loading import load_settings
from leveret.node.node import Node
from leveret.node.reload import changes
from leveret.runtime.secret import Secret
from leveret.testing import Broker
from tests.conformance.raw_client import RawClient
from tests.unit.node.process import Server, command, environment, serving

SECONDS_MAX = 60


def test_what_may_change_is_told_from_what_needs_a_restart() -> None:
    before = load_settings(None, {"listen.port": 6001, "limits.heartbeat_s": 5})
    wanted = load_settings(
        None,
        {"listen.port": 6002, "limits.heartbeat_s": 6, "log_level": "debug", "tls.key_password": "x", "data_dir": "/d"},
    )
    after, live, waiting = changes(before, wanted)
    assert live == ["log_level", "tls.key_password", "limits.heartbeat_s"]
    ports = ["listen.port", "listen.stream_port", "listen.management_port", "listen.metrics_port"]
    assert sorted(waiting) == sorted(["data_dir", *ports])
    assert (after.log_level, after.limits.heartbeat_s, after.tls.key_password) == ("debug", 6, Secret("x"))
    assert (after.listen, after.data_dir) == (before.listen, "")
    assert changes(after, wanted).live == []
    assert changes(wanted, wanted) == (wanted, [], [])


def reloaded(broker: Broker, **settings: Any) -> list[str]:
    new = load_settings(None, {name.replace("__", "."): value for name, value in settings.items()})
    return broker.call(lambda node: [key for key in node.reload(new) if key.replace(".", "__") in settings])


def tuned(broker: Broker | Server, host: str = "127.0.0.1") -> tuple[int, int]:
    client = RawClient(host, broker.port)
    client.start()
    client.start_ok()
    method = client.expect(0, "connection.tune")
    client.socket.close()
    return method["channel_max"], method["heartbeat"]


def test_new_connections_get_new_limits_and_old_ones_live_on() -> None:
    with Broker() as broker, RawClient(broker.host, broker.port).log_in() as old:
        assert tuned(broker) == (2047, 60)
        assert reloaded(broker, limits__channel_max=7, limits__heartbeat_s=9) == [
            "limits.channel_max",
            "limits.heartbeat_s",
        ]
        assert tuned(broker) == (7, 9)
        old.open_channel(8)


def test_alarms_follow_at_once() -> None:
    with Broker() as broker:

        def alarms() -> set[str]:
            return broker.call(lambda node: set(node.broker.alarms))

        deadline = time.monotonic() + SECONDS_MAX
        while broker.call(lambda node: node._watch.disk_free_bytes) is None and time.monotonic() < deadline:  # type: ignore[union-attr]
            time.sleep(0.01)
        assert alarms() == set()
        reloaded(broker, alarms__disk_free_bytes_min=2**50, alarms__memory_watermark=1.0)
        assert alarms() == {"disk"}
        reloaded(broker, alarms__disk_free_bytes_min=0, alarms__memory_watermark=2**20)
        assert alarms() == {"memory"}
        reloaded(broker, alarms__disk_free_bytes_min=0, alarms__memory_watermark=1.0)
        assert alarms() == set()


def test_the_schedule_of_dead_letters_follows() -> None:
    with Broker() as broker:
        before = broker.call(lambda node: node.dead_letters.schedule)
        reloaded(broker, limits__heartbeat_s=1)
        assert broker.call(lambda node: node.dead_letters.schedule) is before
        reloaded(broker, dead_letters__queues=["dead"], dead_letters__every_s=0.05)
        deadline = time.monotonic() + SECONDS_MAX
        while broker.call(lambda node: node.dead_letters.schedule.runs_total) == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert broker.call(lambda node: node.dead_letters.schedule.runs_total) > 0
        assert before.runs_total == 0


def test_logins_follow() -> None:
    with Broker() as broker:
        logins = broker.call(lambda node: node.broker.logins)
        before = logins.settings
        reloaded(broker, limits__heartbeat_s=1)
        assert logins.settings is before
        assert reloaded(broker, auth__loopback_users=["ann"], auth__failures_max=7) == [
            "auth.loopback_users",
            "auth.failures_max",
        ]
        assert (logins.settings.loopback_users, logins.settings.failures_max) == (("ann",), 7)


def test_limits_of_the_node_follow() -> None:
    with Broker() as broker:
        reloaded(
            broker, limits__connections_max=1, limits__channels_max=2, limits__body_bytes_max=3, management__lease_s=7
        )
        limits = broker.call(lambda node: node.broker.limits.node)
        assert (limits.connections_max, limits.channels_max) == (1, 2)
        assert broker.call(lambda node: (node.publishing.body_bytes_max, node.http_leases.lease_s)) == (3, 7)


def test_a_key_for_tokens_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    tokens = {"auth__tokens__enabled": True, "auth__tokens__audience": "a"}
    with Broker() as broker:
        with pytest.raises(ConfigError, match=r"auth\.tokens\.keys\.one: cannot read .*none\.pem: No such file"):
            reloaded(broker, limits__channel_max=7, auth__tokens__keys={"one": f"{tmp_path}/none.pem"}, **tokens)
        assert broker.call(lambda node: node.settings.limits.channel_max) == 2047
        assert broker.call(lambda node: node.broker.logins.settings.tokens) is None


def test_the_management_api_follows() -> None:
    with Broker() as broker:
        reloaded(broker, management__small_body_bytes_max=2048, management__body_bytes_max=4096)
        services = broker.call(lambda node: node.management.services)
        assert (services.small_body_bytes_max, services.large_body_bytes_max) == (2048, 4096)
        reloaded(broker, management__bodies_bytes_max=2**20, management__answers_bytes_max=2**21)
        assert (services.bodies.limit, services.answers.limit) == (2**20, 2**21)
        bounds = {"header_deadline_s": 3.0, "write_deadline_s": 4.0, "connections_per_address_max": 5}
        reloaded(broker, **{f"management__{name}": value for name, value in bounds.items()})
        assert services.write_deadline_s == 4.0
        for server in broker.call(lambda node: (node.management.server, node.metrics._server)):
            assert server.connections.header_deadline_s == 3.0
            assert server.connections.places.per_address_max == 5


def test_whoever_refuses_keeps_everything_as_it_was() -> None:
    def refuse(settings: object) -> None:
        raise StartupError("the certificate is not one")

    def register(node: Node) -> None:
        node.on_reload.append(refuse)

    with Broker() as broker:
        broker.call(register)
        with pytest.raises(StartupError, match="the certificate is not one"):
            reloaded(broker, limits__channel_max=7)
        assert broker.call(lambda node: node.settings.limits.channel_max) == 2047
        assert tuned(broker)[0] == 2047


# ---- a real process


class Log:
    """Standard error of a server, line by line."""

    def __init__(self, server: Server) -> None:
        assert server.process.stderr is not None
        self._lines = server.process.stderr

    def until(self, words: str) -> str:
        for line in self._lines:
            if words in line:
                return line.rstrip("\n")
        raise AssertionError(f"the log ended without {words!r}")


def test_a_process_takes_over_what_it_can_and_says_so(tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text("[limits]\nchannel_max = 7\n")
    with serving("--config", str(config), "--data-dir", str(tmp_path / "data")) as server:
        log = Log(server)
        config.write_text('log_level = "debug"\n[limits]\nchannel_max = 9\n[storage]\nsync = false\n')
        server.process.send_signal(signal.SIGHUP)
        assert log.until("changed").endswith("INFO    configuration read again; changed: log_level, limits.channel_max")
        assert log.until("restart").endswith("WARNING configuration read again; needs a restart: storage.sync")
        assert tuned(server)[0] == 9

        config.write_text("[limits]\nchannel_max = 0\nframe_mox = 1\n")
        server.process.send_signal(signal.SIGHUP)
        refusal = "ERROR   the configuration cannot be used, everything stays as it is: "
        assert log.until("frame_mox").endswith(
            f"{refusal}{config}: limits.frame_mox is no setting; do you mean limits.frame_max?"
        )
        assert log.until("channel_max").endswith(
            f"{refusal}{config}: limits.channel_max is 0; it must be a whole number from 1 to 65535"
        )
        assert tuned(server)[0] == 9

        config.unlink()
        server.process.send_signal(signal.SIGHUP)
        assert "No such file" in log.until("cannot be used")
        assert tuned(server)[0] == 9
        server.process.terminate()
        assert server.process.wait(SECONDS_MAX) == 0


def lets_in(server: Server, user: str, password: str) -> bool:
    credentials = pika.PlainCredentials(user, password)
    try:
        pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port, credentials=credentials)).close()
    except pika.exceptions.ProbableAuthenticationError:
        return False
    return True


def test_a_changed_password_file_counts_after_a_signal_and_after_a_restart(tmp_path: Path) -> None:
    config, secret = tmp_path / "leveret.toml", tmp_path / "secret"

    def replace(text: str) -> None:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(secret)

    config.write_text(f'[auth]\ndefault_user = "ann"\ndefault_password_file = "{secret}"\n')
    arguments = ("--config", str(config), "--data-dir", str(tmp_path / "data"))
    replace("canary one")
    with serving(*arguments) as server:
        log = Log(server)
        assert lets_in(server, "ann", "canary one")
        replace("canary two\n")
        server.process.send_signal(signal.SIGHUP)
        lines = [log.until("changed: auth.default_password"), log.until("password of the configuration")]
        assert lets_in(server, "ann", "canary two") and not lets_in(server, "ann", "canary one")
        replace("")
        server.process.send_signal(signal.SIGHUP)
        lines.append(log.until("which is empty"))
        assert lets_in(server, "ann", "canary two")
        server.process.terminate()
        assert server.process.wait(SECONDS_MAX) == 0
        assert "canary" not in "".join([*lines, server.errors()])
    script = tmp_path / "manager"
    script.write_text("#!/bin/sh\necho 'token renewed' >&2\necho canary three\n")
    script.chmod(0o700)
    config.write_text(f'[auth]\ndefault_user = "ann"\ndefault_password_command = ["{script}"]\n')
    with serving(*arguments) as server:
        assert lets_in(server, "ann", "canary three") and not lets_in(server, "ann", "canary two")
        server.process.terminate()
        assert server.process.wait(SECONDS_MAX) == 0
        errors = server.errors()
        assert "token renewed" in errors and "canary" not in errors


def test_many_signals_end_in_the_last_state(tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text("")
    with serving("--config", str(config), "--data-dir", str(tmp_path / "data")) as server:
        for number in range(1, 51):
            # As editors do: nobody ever reads half a file.
            (tmp_path / "new").write_text(f"[limits]\nchannel_max = {number}\n")
            (tmp_path / "new").rename(config)
            server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + SECONDS_MAX
        while tuned(server)[0] != 50 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert tuned(server)[0] == 50
        server.process.terminate()
        assert server.process.wait(SECONDS_MAX) == 0
        assert "Traceback" not in server.errors()


def test_a_closed_terminal_ends_the_node(tmp_path: Path) -> None:
    """The terminal's hang-up is the same signal, but nobody asks for a reload."""
    inside, outside = pty.openpty()
    process = subprocess.Popen(
        command("serve", "--port", "0", "--data-dir", str(tmp_path)),
        env=environment(),
        stdin=outside,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        os.close(outside)
        Server(process)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        os.close(inside)
        process.send_signal(signal.SIGHUP)
        assert process.wait(SECONDS_MAX) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
