"""What becomes of RabbitMQ's keys: each is taken, ignored or not supported, and the result is a good configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from leveret.node.config.loading import load_settings
from leveret.node.migrate.conversion import convert
from leveret.node.migrate.findings import IGNORED, TAKEN, UNKNOWN, UNSUPPORTED, Migration, frame_bytes, memory_bytes
from leveret.node.migrate.rabbitmq_conf import Entry, read_conf
from leveret.node.migrate.toml_file import as_file

SCHEMAS = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/plugins/*/priv/schema/*.schema"))
CERTIFICATE = "ssl_options.certfile = /c\nssl_options.keyfile = /k\nssl_options.cacertfile = /ca\n"


def migrated(tmp_path: Path, text: str) -> Migration:
    path = tmp_path / "rabbitmq.conf"
    path.write_text(text, "utf-8")
    return convert(read_conf(path))


def verdicts(migration: Migration) -> dict[str, str]:
    return {finding.what: finding.verdict for finding in migration.findings}


def problems(migration: Migration) -> list[str]:
    return [f"{finding.what}: {finding.text}" for finding in migration.findings if finding.verdict == UNSUPPORTED]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("listeners.tcp.default = 5673", {"listen.host": "::", "listen.port": 5673, "listen.management_port": 15672}),
        ("listeners.tcp.local = 127.0.0.1:5672", {"listen.host": "127.0.0.1", "listen.port": 5672}),
        ("listeners.tcp.local = ::1:5672", {"listen.host": "::1", "listen.port": 5672}),
        ("listeners.tcp.local = [::1]:5672", {"listen.host": "::1"}),
        (f"{CERTIFICATE}listeners.ssl.default = 5671", {"listen.tls_port": 5671, "tls.certificate": "/c"}),
        ("listeners.ssl = none", {"listen.tls_port": "off"}),
        (
            f"{CERTIFICATE}listeners.tcp = none\nlisteners.ssl.default = 5671",
            {"listen.port": "off", "listen.tls_port": 5671, "listen.host": "::", "listen.management_port": None},
        ),
        (
            f"{CERTIFICATE}listeners.tcp.a = 127.0.0.1:5672\nlisteners.ssl.a = 5671",
            {"listen.host": "127.0.0.1", "listen.tls_host": "::", "listen.tls_port": 5671},
        ),
        (
            "listeners.tcp.a = 127.0.0.1:5672\nstream.listeners.tcp.a = 10.0.0.1:5552",
            {"listen.stream_host": "10.0.0.1", "listen.stream_port": 5552},
        ),
        ("management.tcp.ip = 127.0.0.1", {"listen.host": "::", "listen.management_host": "127.0.0.1"}),
        ("prometheus.tcp.ip = 127.0.0.1", {"listen.metrics_host": "127.0.0.1"}),
        ("stream.listeners.tcp.default = 5555", {"listen.stream_port": 5555}),
        ("stream.listeners.tcp = none", {"listen.stream_port": "off"}),
        (f"{CERTIFICATE}ssl_options.verify = verify_peer", {"tls.verify": "optional", "tls.ca": "/ca"}),
        (
            f"{CERTIFICATE}ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true",
            {"tls.verify": "required"},
        ),
        ("ssl_options.verify = verify_none", {"tls.verify": "none"}),
        ("ssl_options.versions.1 = tlsv1.3", {"tls.version_min": "1.3"}),
        ("ssl_options.versions.1 = tlsv1.3\nssl_options.versions.2 = tlsv1.2", {"tls.version_min": "1.2"}),
        ("ssl_options.ciphers.1 = A-B\nssl_options.ciphers.2 = C-D", {"tls.ciphers": "A-B:C-D"}),
        ("management.tcp.port = 8080", {"listen.management_port": 8080}),
        (
            "management.ssl.port = 8443\nmanagement.ssl.certfile = /c\nmanagement.ssl.keyfile = /k",
            {"listen.management_port": 8443, "listen.management_tls": True, "tls.certificate": "/c", "tls.key": "/k"},
        ),
        ("management.listener.port = 8080", {"listen.management_port": 8080}),
        ("prometheus.tcp.port = 9090", {"listen.metrics_port": 9090}),
        ("default_user = ann\ndefault_vhost = v", {"auth.default_user": "ann", "auth.default_vhost": "v"}),
        ("loopback_users = none", {"auth.loopback_users": ()}),
        ("loopback_users.guest = false", {"auth.loopback_users": ()}),
        ("loopback_users.ann = true\nloopback_users.guest = true", {"auth.loopback_users": ("ann", "guest")}),
        (
            "auth_mechanisms.2 = PLAIN\nauth_mechanisms.1 = EXTERNAL",
            {"auth.mechanisms": ("EXTERNAL", "PLAIN"), "auth.external_name": "dn"},
        ),
        ("ssl_cert_login_from = common_name", {"auth.external_name": "cn"}),
        (
            "ssl_cert_login_from = subject_alternative_name\nssl_cert_login_san_type = email",
            {"auth.external_name": "san_email"},
        ),
        ("password_hashing_module = rabbit_password_hashing_sha512", {"auth.password_hash": "rabbit_sha512"}),
        (
            "auth_backends.1 = rabbit_auth_backend_oauth2\nauth_oauth2.resource_server_id = shop\n"
            "auth_oauth2.signing_keys.one = /one.pem\nauth_oauth2.algorithms.1 = RS256\n"
            "auth_oauth2.preferred_username_claims.1 = email",
            {
                "auth.tokens.enabled": True,
                "auth.tokens.audience": "shop",
                "auth.tokens.scope_prefix": "shop.",
                "auth.tokens.keys": {"one": "/one.pem"},
                "auth.tokens.algorithms": ("RS256",),
                "auth.tokens.name_claims": ("email", "sub"),
            },
        ),
        ("auth_oauth2.resource_server_id = s\nauth_oauth2.scope_prefix = x:", {"auth.tokens.scope_prefix": "x:"}),
        ("heartbeat = 30\nchannel_max = 0", {"limits.heartbeat_s": 30, "limits.channel_max": 65535}),
        ("frame_max = 128KB", {"limits.frame_max": 131072}),
        ("frame_max = 0", {"limits.frame_max": 16777216}),
        ("max_message_size = 1000", {"limits.body_bytes_max": 1000}),
        ("consumer_max_per_channel = 100", {"limits.consumers_per_channel_max": 100}),
        ("connection_max = infinity", {"limits.connections_max": 0}),
        ("handshake_timeout = 2500", {"limits.handshake_deadline_s": 2.5}),
        ("consumer_timeout = 900", {"limits.ack_timeout_ms": 900, "limits.ack_timeout_action": "close"}),
        ("vm_memory_high_watermark.relative = 0.6", {"alarms.memory_watermark": 0.6}),
        ("vm_memory_high_watermark.absolute = 2GiB", {"alarms.memory_watermark": 2147483648}),
        ("disk_free_limit.absolute = 50MB", {"alarms.disk_free_bytes_min": 50_000_000}),
        ("load_definitions = /d.json", {"definitions.path": "/d.json"}),
        (
            "definitions.local.path = /d\ndefinitions.skip_if_unchanged = false",
            {"definitions.skip_if_unchanged": False},
        ),
        ("log.console.level = error\nlog.file.level = notice", {"log_level": "info"}),
        ("log.console.formatter = json", {"log_format": "json"}),
        ("cluster_name = shop", {"cluster_name": "shop"}),
        ("management.login_session_timeout = 10", {"management.session_s": 600.0}),
        ("collect_statistics_interval = 10000", {"management.sample_interval_s": 10.0}),
    ],
)
def test_what_we_have_is_taken(tmp_path: Path, text: str, values: dict[str, Any]) -> None:
    migration = migrated(tmp_path, text)
    assert problems(migration) == []
    assert {key: migration.values.get(key) for key in values} == values


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "listeners.tcp.a = 5672\nlisteners.tcp.b = 5673",
            "listeners.tcp.b: there is one listen.port, which is 5672; listen.host may be every address",
        ),
        ("listeners.tcp.a = here", "listeners.tcp.a: 'here' is neither a port nor an address and a port"),
        (
            f"{CERTIFICATE}management.tcp.ip = 127.0.0.1\nmanagement.ssl.ip = 10.0.0.1",
            "management.ssl.ip: there is one listen.management_host, which is 127.0.0.1",
        ),
        (
            f"{CERTIFICATE}management.tcp.port = 1\nmanagement.ssl.port = 2",
            "management.tcp.port: there is one listen.management_port, which is the one with TLS (management.ssl.port)",
        ),
        (
            f"{CERTIFICATE}management.ssl.certfile = /other",
            "management.ssl.certfile: there is one tls.certificate, from ssl_options.certfile, and this is another",
        ),
        (
            f"{CERTIFICATE}listeners.ssl.a = 5671\nmanagement.ssl.verify = verify_peer",
            "management.ssl.verify: there is one tls.verify, which is none for AMQP",
        ),
        ("ssl_options.versions.1 = tlsv1.1", "ssl_options.versions.1: tlsv1.1 is not spoken: TLS 1.2 is the oldest"),
        ("auth_backends.1 = ldap", "auth_backends.1: nobody is asked by way of ldap: its users cannot log in"),
        ("auth_mechanisms.1 = ANONYMOUS", "auth_mechanisms.1: ANONYMOUS is not spoken; known are"),
        ("auth_oauth2.algorithms.1 = HS256", "auth_oauth2.algorithms.1: signatures by HS256 are not taken"),
        (
            "password_hashing_module = rabbit_password_hashing_md5",
            "password_hashing_module: new passwords are not kept as",
        ),
        ("proxy_protocol = true", "proxy_protocol: set listen.proxy_networks"),
        ("heartbeat = often", "heartbeat: 'often' is no whole number"),
        ("heartbeat = 70000", "heartbeat: limits.heartbeat_s is 70000; it must be a whole number from 0 to 65535"),
        ("vm_memory_high_watermark.relative = 0", "the result: alarms.memory_watermark is 0; it must be a part"),
        ("disk_free_limit.relative = 1.0", "disk_free_limit.relative: the limit is in bytes: set alarms"),
        ("disk_free_limit.absolute = much", "disk_free_limit.absolute: 'much' is no size"),
        ("mqtt.listeners.tcp.default = 1883", "mqtt.listeners.tcp.default: MQTT is not spoken"),
        (
            "default_pass = encrypted:abcd",
            "default_pass: the value is encrypted by RabbitMQ; set auth.default_password_file",
        ),
        (
            "prometheus.return_per_object_metrics = true",
            "prometheus.return_per_object_metrics: scrape /metrics/per-object",
        ),
        ("herring = red", f"herring: {UNKNOWN}"),
        (
            "listeners.ssl.default = 5671",
            "the result: listen.tls_port needs a certificate; set tls.certificate and tls.key",
        ),
    ],
)
def test_what_we_do_not_have_is_said(tmp_path: Path, text: str, told: str) -> None:
    assert [problem for problem in problems(migrated(tmp_path, text)) if problem.startswith(told)]


@pytest.mark.parametrize(
    "text",
    [
        "tcp_listen_options.backlog = 128",
        "num_acceptors.tcp = 10",
        "net_ticktime = 60",
        "queue_index_embed_msgs_below = 4096",
        "log.file = rabbit.log",
        "log.connection.level = debug",
        "auth_backends.1 = internal",
        "proxy_protocol = false",
        "ssl_options.honor_cipher_order = true",
        "default_permissions.read = .*",
        "management.rates_mode = basic",
    ],
)
def test_what_makes_no_difference_is_ignored(tmp_path: Path, text: str) -> None:
    (finding,) = migrated(tmp_path, text).findings
    assert finding.verdict == IGNORED
    assert finding.text


def test_the_last_of_two_counts(tmp_path: Path) -> None:
    migration = migrated(tmp_path, "heartbeat = 1\nheartbeat = 2\n")
    assert migration.values["limits.heartbeat_s"] == 2
    assert [(finding.verdict, finding.text) for finding in migration.findings] == [
        (IGNORED, f"it is set again at {tmp_path}/rabbitmq.conf:2"),
        (TAKEN, "as limits.heartbeat_s"),
    ]


def test_without_a_word_it_listens_as_rabbitmq_does(tmp_path: Path) -> None:
    migration = migrated(tmp_path, "")
    assert migration.values == {"listen.host": "::"}
    assert migration.findings == []


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        ("1", 1),
        ("1k", 1024),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("3M", 3 * 2**20),
        ("2GB", 2 * 10**9),
        ("1TiB", 2**40),
    ],
)
def test_sizes_of_memory_are_rabbitmqs(text: str, octets: int) -> None:
    assert memory_bytes(text) == octets


def test_sizes_of_frames_are_other_ones() -> None:
    assert [frame_bytes(text) for text in ("1", "1kb", "1KB", "1MB")] == [1, 1024, 1024, 2**20]
    for text in ("1k", "1.5MB", "-1", ""):
        with pytest.raises(ValueError, match="is no size"):
            frame_bytes(text)


def test_the_file_means_what_was_taken_and_says_where_it_is_from(tmp_path: Path) -> None:
    migration = migrated(
        tmp_path,
        f'{CERTIFICATE}ssl_options.password = hush \\ " \nlisteners.ssl.1 = 5671\nheartbeat = 30\n'
        "mqtt.allow_anonymous = true\n"
        "auth_oauth2.signing_keys.key\\.1 = /x.pem\ndefault_user = ann\ndefault_pass = pw\n",
    )
    text = as_file(migration, "rabbitmq.conf\nport = 1")
    (tmp_path / "leveret.toml").write_text(text, "utf-8")
    assert load_settings(tmp_path / "leveret.toml", {}) == load_settings(None, migration.values)
    assert "# heartbeat\nheartbeat_s = 30\n" in text
    assert "#   mqtt.allow_anonymous: MQTT is not spoken\n" in text
    assert text.startswith("# Made by `leveret migrate` from rabbitmq.conf?port = 1.\n")


def test_no_secret_is_told(tmp_path: Path) -> None:
    canary = "canary-77"
    migration = migrated(
        tmp_path,
        f"default_pass = {canary}\nssl_options.password = {canary}\nmanagement.ssl.password = {canary}x\n"
        f"mqtt.default_pass = {canary}\nsecret = {canary}\n",
    )
    assert canary not in "".join(finding.text for finding in migration.findings)


@pytest.mark.skipif(not SCHEMAS, reason="RabbitMQ is not installed")
def test_every_key_of_an_installed_rabbitmq_is_known() -> None:
    keys = {key for path in SCHEMAS for key in re.findall(r'^\{mapping,\s*"([^"]+)"', path.read_text("utf-8"), re.M)}
    names = [re.sub(r"\$\w+", "1", key) for key in sorted(keys)]
    assert len(names) > 700
    migration = convert([Entry(tuple(name.split(".")), "1", name) for name in names])
    assert set(names) <= set(verdicts(migration))
    assert [finding.what for finding in migration.findings if finding.text == UNKNOWN] == []
