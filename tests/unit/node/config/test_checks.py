"""Checks that need code: settings that need each other, and forms that no type has."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.errors import ConfigError
from leveret.node.config.loading import load_settings

CERTIFICATE = {"tls.certificate": "c.pem", "tls.key": "k.pem"}
TOKENS = {"auth.tokens.enabled": True, "auth.tokens.audience": "leveret", "auth.tokens.keys": {"a": "a.pem"}}


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        ({"node_name": "leveret"}, ["node_name is 'leveret'; it must be like leveret@host"]),
        ({"node_name": "a b@c"}, ["node_name is 'a b@c'; it must be like leveret@host"]),
        ({"cluster_name": ""}, ["cluster_name is empty"]),
        ({"cluster_name": "ä" * 128}, ["cluster_name is longer than 255 bytes"]),
        ({"listen.socket": "/" + "x" * 107}, ["listen.socket has 108 bytes; a socket's path has at most 107"]),
        (
            {"listen.proxy_networks": ["10.0.0.0/28", "proxy", "10.0.0.1/28"]},
            [
                "listen.proxy_networks has 'proxy', which is no network such as 10.0.0.0/28: 'proxy' does not appear "
                "to be an IPv4 or IPv6 network",
                "listen.proxy_networks has '10.0.0.1/28', which is no network such as 10.0.0.0/28: 10.0.0.1/28 has "
                "host bits set",
            ],
        ),
        ({"listen.metrics_port": 5672}, ["listen.metrics_port is 5672, which is also listen.port"]),
        (
            {"listen.stream_tls_port": 15672, **CERTIFICATE},
            ["listen.management_port is 15672, which is also listen.stream_tls_port"],
        ),
        (
            {"listen.port": "off", "listen.stream_port": "off"},
            ['listen.port is "off", and so are all other ports for clients; nobody could connect'],
        ),
        (
            {"listen.management_host": "0.0.0.0", "listen.management_port": 5672},
            ["listen.management_port is 5672, which is also listen.port"],
        ),
        (
            {"listen.tls_port": 5671, "listen.management_tls": True},
            [
                "listen.tls_port needs a certificate; set tls.certificate and tls.key",
                "listen.management_tls needs a certificate; set tls.certificate and tls.key",
            ],
        ),
        ({"tls.certificate": "c.pem"}, ["tls.certificate is set, but tls.key is not"]),
        ({"tls.key": "k.pem"}, ["tls.key is set, but tls.certificate is not"]),
        (
            {**CERTIFICATE, "tls.verify": "required"},
            ["tls.verify is 'required'; set tls.ca, whose authorities clients are judged by"],
        ),
        ({"auth.mechanisms": []}, ["auth.mechanisms is empty; nobody could log in"]),
        (
            {"auth.default_password": ""},
            ["auth.default_password is empty; set it, or set auth.default_user to nothing"],
        ),
        ({"auth.default_vhost": ""}, ["auth.default_vhost is empty"]),
        (
            {**TOKENS, "auth.tokens.audience": ""},
            ["auth.tokens.enabled needs auth.tokens.audience; else any token would do"],
        ),
        (
            {**TOKENS, "auth.tokens.keys": {}},
            ["auth.tokens.enabled needs keys; set auth.tokens.keys or auth.tokens.jwks_url"],
        ),
        ({**TOKENS, "auth.tokens.algorithms": []}, ["auth.tokens.algorithms is empty; no token could be used"]),
        (
            {"auth.tokens.jwks_url": "http://idp.example/keys"},
            ["auth.tokens.jwks_url is 'http://idp.example/keys'; it must begin with https://"],
        ),
        (
            {"alarms.memory_watermark": 40},
            [
                "alarms.memory_watermark is 40; it must be a part of the memory, above 0 up to 1, "
                "or bytes from 1048576 to 1125899906842624"
            ],
        ),
        (
            {"alarms.disk_free_bytes_min": -1},
            ["alarms.disk_free_bytes_min is -1; it must be from 0 to 1125899906842624, 0 for no alarm"],
        ),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_settings(None, settings)
    assert str(refusal.value).splitlines() == problems


@pytest.mark.parametrize(
    "settings",
    [
        {"node_name": "leveret@host-1.example"},
        {"listen.socket": "/" + "x" * 106},
        {"listen.port": 0, "listen.tls_port": 0, "listen.metrics_port": "off", **CERTIFICATE},
        {**CERTIFICATE, "tls.verify": "optional", "tls.ca": "ca.pem"},
        {"auth.default_user": "", "auth.default_password": ""},
        TOKENS,
        {**TOKENS, "auth.tokens.keys": {}, "auth.tokens.jwks_url": "https://idp.example/keys"},
        {"alarms.memory_watermark": 1, "alarms.disk_free_bytes_min": 0},
    ],
)
def test_what_fits_is_taken(settings: dict[str, Any]) -> None:
    load_settings(None, settings)


def test_one_port_may_be_open_on_two_addresses() -> None:
    chosen = {"listen.metrics_host": "127.0.0.2", "listen.metrics_port": 15672, "listen.management_port": 15672}
    listen = load_settings(None, chosen).listen
    assert (listen.door("management_"), listen.door("metrics_")) == (("127.0.0.1", 15672), ("127.0.0.2", 15672))


def test_nothing_follows_a_port_that_is_off() -> None:
    chosen = {"listen.port": "off", "listen.tls_port": 5671, **CERTIFICATE}
    listen = load_settings(None, chosen).listen
    assert listen.door("") is None and listen.door("tls_") == ("127.0.0.1", 5671)
    assert [listen.door(name) for name in ("stream_", "management_", "metrics_")] == [
        ("127.0.0.1", port) for port in (5552, 15672, 15692)
    ]
