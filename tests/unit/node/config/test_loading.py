"""Settings: defaults, a TOML file, the command line over it, and refusals that name the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leveret.errors import ConfigError
from leveret.node.config.loading import load_settings
from leveret.node.config.settings import Settings, default_data_dir


def load(tmp_path: Path, text: str, overrides: dict[str, Any] | None = None) -> Settings:
    path = tmp_path / "leveret.toml"
    path.write_text(text, "utf-8")
    return load_settings(path, overrides or {})


def refused(tmp_path: Path, text: str, overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigError) as refusal:
        load(tmp_path, text, overrides)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_without_a_file_the_defaults_hold() -> None:
    settings = load_settings(None, {})
    assert settings == Settings()
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.1", 5672)
    limits = settings.limits
    assert (limits.frame_max, limits.channel_max, limits.heartbeat_s) == (131072, 2047, 60)
    assert (limits.body_bytes_max, limits.handshake_deadline_s) == (16 * 1024 * 1024, 10.0)
    assert (limits.ack_timeout_ms, limits.ack_timeout_action) == (0, "requeue")
    assert settings.auth.loopback_users == ("guest",)
    dead_letters = settings.dead_letters
    assert (dead_letters.queues, dead_letters.every_s, dead_letters.archive_after_s) == ((), 3600, 86400)
    assert (dead_letters.archive_exchange, dead_letters.archive_queue) == ("", "leveret.archive")


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        log_level = "debug"
        cluster_name = "größe"
        [listen]
        host = "::1"
        port = 0
        [limits]
        heartbeat_s = 5
        handshake_deadline_s = 2
        [auth]
        loopback_users = []
        """,
    )
    assert (settings.log_level, settings.cluster_name) == ("debug", "größe")
    assert (settings.listen.host, settings.listen.port, settings.listen.metrics_port) == ("::1", 0, 0)
    assert (settings.limits.heartbeat_s, settings.limits.handshake_deadline_s) == (5, 2.0)
    assert settings.limits.frame_max == 131072
    assert settings.auth.loopback_users == ()


def test_the_command_line_goes_over_the_file(tmp_path: Path) -> None:
    text = '[listen]\nport = 1000\nhost = "0.0.0.0"'
    settings = load(tmp_path, text, {"listen.port": 2000, "log_level": "error", "listen.host": None})
    assert (settings.listen.port, settings.listen.host, settings.log_level) == (2000, "0.0.0.0", "error")


def test_the_command_line_alone_is_enough() -> None:
    assert load_settings(None, {"listen.port": 7, "data_dir": "/tmp/x"}).listen.port == 7


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("prot = 5", "prot is no setting"),
        ("[listen]\nprot = 5", "listen.prot is no setting; do you mean listen.port?"),
        ("[limit]\nframe_max = 8192", "limit is no setting; do you mean limits?"),
        ("[auth]\nloopback_user = []", "auth.loopback_user is no setting; do you mean auth.loopback_users?"),
        ("frame_max = 8192", "frame_max is no setting; do you mean limits.frame_max?"),
    ],
)
def test_an_unknown_key_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    assert refused(tmp_path, text).startswith(f"{tmp_path}/leveret.toml: {place}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[listen]\nport = "5672"', "listen.port"),
        ("[listen]\nport = true", "listen.port"),
        ("[listen]\nport = 5672.5", "listen.port"),
        ("[listen]\nhost = 1", "listen.host"),
        ("listen = 5", "listen must be a table, [listen]"),
        ("log_level = 3", "log_level"),
        ('[auth]\nloopback_users = "guest"', "auth.loopback_users"),
        ("[auth]\nloopback_users = [1]", "auth.loopback_users"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    assert refused(tmp_path, text).startswith(f"{tmp_path}/leveret.toml: {place}")


def test_a_section_that_is_no_table_is_refused_although_the_command_line_sets_something_in_it(tmp_path: Path) -> None:
    assert "listen" in refused(tmp_path, "listen = 5", {"listen.port": 0})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[listen]\nport = 65536", 'listen.port is 65536; a port is 0 to 65535, 0 for any free one, or "off"'),
        ("[listen]\nport = -1", "listen.port is -1"),
        ("[listen]\nmetrics_port = 70000", "listen.metrics_port is 70000"),
        ("[limits]\nframe_max = 4095", "limits.frame_max is 4095; it must be a whole number from 8192 to"),
        ("[limits]\nframe_max = 16777217", "limits.frame_max is 16777217"),
        ("[limits]\nchannel_max = 0", "limits.channel_max is 0"),
        ("[limits]\nchannel_max = 65536", "limits.channel_max is 65536"),
        ("[limits]\nheartbeat_s = -1", "limits.heartbeat_s is -1"),
        ("[limits]\nheartbeat_s = 65536", "limits.heartbeat_s is 65536"),
        ("[limits]\nbody_bytes_max = 0", "limits.body_bytes_max is 0"),
        ("[limits]\nhandshake_deadline_s = 0", "limits.handshake_deadline_s is 0"),
        ("[limits]\nack_timeout_ms = -1", "limits.ack_timeout_ms is -1; it must be a whole number from 0 to"),
        ('[limits]\nack_timeout_action = "drop"', "ack_timeout_action is 'drop'; use one of requeue, close"),
        ("[limits]\nhandshake_deadline_s = inf", "limits.handshake_deadline_s is inf"),
        ("[limits]\nhandshake_deadline_s = nan", "limits.handshake_deadline_s is nan"),
        ("[dead_letters]\nevery_s = 0", "dead_letters.every_s is 0"),
        ("[dead_letters]\narchive_after_s = -1", "dead_letters.archive_after_s is -1"),
        (
            '[dead_letters]\nqueues = ["ok", "(?!a)"]',
            "dead_letters.queues has '(?!a)', which is no pattern of queues: (?! is not supported",
        ),
        (
            '[dead_letters]\nqueues = ["shop/"]',
            "dead_letters.queues has 'shop/', which is no pattern of queues: it names",
        ),
        ('[dead_letters]\narchive_queue = ""', "dead_letters.archive_queue is ''"),
        ('[dead_letters]\narchive_queue = "amq.x"', "dead_letters.archive_queue is 'amq.x'"),
        (f'[dead_letters]\narchive_exchange = "{"x" * 256}"', "dead_letters.archive_exchange is longer than 255 bytes"),
        ('log_level = "loud"', "log_level is 'loud'; use one of debug, info, warning, error"),
    ],
)
def test_a_value_out_of_range_is_refused_with_what_would_do(tmp_path: Path, text: str, words: str) -> None:
    assert words in refused(tmp_path, text)


@pytest.mark.parametrize("text", ["[listen\nport = 1", "port 1", "a = 1\na = 2"])
def test_what_is_not_toml_is_refused(tmp_path: Path, text: str) -> None:
    assert "leveret.toml is not valid TOML" in refused(tmp_path, text)


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leveret.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_settings(path, {})


def test_a_missing_or_unreadable_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.toml: No such file"):
        load_settings(tmp_path / "nowhere.toml", {})
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        load_settings(tmp_path, {})


def test_a_bad_value_is_refused_without_a_file() -> None:
    with pytest.raises(ConfigError, match=r"^listen\.port is 'many'; a port is"):
        load_settings(None, {"listen.port": "many"})


def test_the_data_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_data_dir() == str(tmp_path / "leveret")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_data_dir() == str(tmp_path / ".local" / "share" / "leveret")


def test_an_empty_host_does_not_silently_mean_every_address(tmp_path: Path) -> None:
    assert refused(tmp_path, "", {"listen.host": ""}) == (
        'listen.host is empty; say "0.0.0.0" or "::" to listen on every address'
    )


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("", 5552),
        ("[listen]\nport = 5673", 5553),
        ("[listen]\nport = 0", 0),
        ("[listen]\nport = 80", 0),
        ("[listen]\nstream_port = 7000", 7000),
        ("[listen]\nstream_port = 0", 0),
        ('[listen]\nstream_port = "off"', None),
    ],
)
def test_the_port_of_the_stream_protocol_follows_that_of_amqp(tmp_path: Path, text: str, port: int | None) -> None:
    door = load(tmp_path, text).listen.door("stream_")
    assert (door and door[1]) == port


@pytest.mark.parametrize("value", ["70000", "-1", '"on"', "true"])
def test_a_port_of_the_stream_protocol_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    assert "stream_port" in refused(tmp_path, f"[listen]\nstream_port = {value}")
