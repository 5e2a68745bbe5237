"""What shovels and upstreams may be told, and what is hidden of it."""

from typing import Any

import pytest

from leveret.catalog.parameters import (
    LIMITS,
    SHOVEL,
    UPSTREAM,
    UPSTREAM_SET,
    VHOST_LIMITS,
    direct_vhost,
    masked,
    parameter_problems,
    stored_problem,
    uris_of,
    without_login,
)
from leveret.catalog.records import Parameter

GOOD_SHOVEL = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}


@pytest.mark.parametrize(
    ("component", "name", "value"),
    [
        (SHOVEL, "s", GOOD_SHOVEL),
        (SHOVEL, "s", {**GOOD_SHOVEL, "ack-mode": "on-confirm", "src-delete-after": "queue-length"}),
        (SHOVEL, "s", {**GOOD_SHOVEL, "src-uri": ["amqp://a", "amqps://b:5671/v"], "reconnect-delay": 5}),
        (SHOVEL, "s", {**GOOD_SHOVEL, "dest-uri": "amqps://b?cacertfile=f&verify=verify_peer&heartbeat=5"}),
        (SHOVEL, "s", {**GOOD_SHOVEL, "src-protocol": "local", "dest-protocol": "amqp091"}),
        (SHOVEL, "s", {**GOOD_SHOVEL, "dest-publish-properties": {"delivery_mode": 2, "headers": {"a": 1}}}),
        (UPSTREAM, "u", {"uri": "amqp://a", "expires": 5, "ack-mode": "no-ack", "max-hops": 2}),
        (UPSTREAM_SET, "s", [{"upstream": "u", "exchange": "x"}]),
        (UPSTREAM_SET, "s", {}),
        (VHOST_LIMITS, LIMITS, {"max-queues": 5, "max-connections": -1}),
    ],
)
def test_good_parameters(component: str, name: str, value: Any) -> None:
    assert parameter_problems(component, name, value) == []


@pytest.mark.parametrize(
    ("component", "name", "value", "told"),
    [
        ("nonsense", "x", {}, "component nonsense not found"),
        (SHOVEL, "x", {}, "Must specify 'src-exchange' or 'src-queue'"),
        (SHOVEL, "x", {}, 'Key "src-uri" not found in x'),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-exchange": "e"}, "Cannot specify 'src-exchange' and 'src-queue'"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "dest-exchange": "e"}, "Cannot specify 'dest-exchange' and 'dest-queue'"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-uri": "http://a"}, "unexpected_uri_scheme"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-uri": []}, "the list is empty"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-uri": "amqp://a:99999"}, "cannot be read"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "nonsense": 1}, 'Unrecognised terms [{<<"nonsense">>,1}] in x'),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-protocol": "amqp10"}, "src-protocol is amqp10, which this broker does not"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-protocol": "local", "src-uri": "amqp://h"}, "src-uri names a host"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-uri": "amqp://a?nope=1"}, 'unknown query key "nope"'),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-uri": "amqp://a?heartbeat=x"}, "heartbeat should be a number"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-prefetch-count": 70_000}, "src-prefetch-count should be at most 65535"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-queue": "x" * 256}, "src-queue should have at most 255 octets"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "dest-publish-properties": {"priority": 256}}, "priority should be at most 255"),
        (SHOVEL, "x", [], "x should be an object"),
        (SHOVEL, "", GOOD_SHOVEL, "1 to 1024 characters"),
        (UPSTREAM, "x", {"uri": "zz"}, '"zz" not a valid URI: no_scheme'),
        (UPSTREAM, "x", {"uri": "amqp://", "expires": "5"}, 'expires should be a number, actually was <<"5">>'),
        (UPSTREAM, "x", {"uri": "amqp://", "trust-user-id": 1}, "trust-user-id should be boolean"),
        (UPSTREAM_SET, "x", [{}], 'Key "upstream" not found in x'),
        (UPSTREAM_SET, "x", "u", "x should be a list"),
        (VHOST_LIMITS, LIMITS, {"max-queues": "5"}, 'max-queues should be a number, actually was <<"5">>'),
        (VHOST_LIMITS, LIMITS, {"nonsense": 5}, 'Unrecognised terms [{<<"nonsense">>,5}] in limits'),
        (VHOST_LIMITS, "foo", {}, "limits of a virtual host have the name 'limits'"),
        (SHOVEL, "x", {**GOOD_SHOVEL, "src-queue": "x" * 70_000}, "at most 65536 bytes"),
    ],
)
def test_bad_parameters(component: str, name: str, value: Any, told: str) -> None:
    problems = parameter_problems(component, name, value)
    assert any(told in problem for problem in problems), problems


def test_no_refusal_quotes_a_password() -> None:
    for value in (
        {**GOOD_SHOVEL, "src-uri": "http://u:canary@h"},
        {**GOOD_SHOVEL, "nonsense": "amqp://u:canary@h"},
        {**GOOD_SHOVEL, "password": "canary"},
        {**GOOD_SHOVEL, "src-prefetch-count": "amqp://u:canary@h?password=canary"},
        {**GOOD_SHOVEL, "src-uri": {"password": "canary"}},
    ):
        problems = parameter_problems(SHOVEL, "s", value)
        assert problems
        assert "canary" not in "".join(problems)


def test_masking_leaves_everything_but_secrets() -> None:
    assert masked("amqp://u:p%40ss@host:1/v?heartbeat=5") == "amqp://u:****@host:1/v?heartbeat=5"
    assert masked("amqp://u:p/a@ss@host") == "amqp://u:****@host"
    assert masked("amqp://host/a:b@c") == "amqp://host/a:b@c"
    assert masked("amqps://h?keyfile=a&password=b") == "amqps://h?keyfile=a&password=****"
    assert masked({"uri": ["amqp://u:p@h"], "n": 1, "a-password": "x"}) == {
        "uri": ["amqp://u:****@h"],
        "n": 1,
        "a-password": "****",
    }


def test_status_shows_neither_login_nor_query() -> None:
    assert without_login("amqp://u:p%40ss@host:1/v?password=b") == "amqp://host:1/v"
    assert without_login("amqp://u:p@") == "amqp://"
    assert without_login("amqp:///v") == "amqp:///v"


def test_a_stored_parameter_says_why_it_cannot_be_run() -> None:
    assert stored_problem(Parameter("/", SHOVEL, "s", GOOD_SHOVEL)) == ""
    assert "amqp10" in stored_problem(Parameter("/", SHOVEL, "s", {**GOOD_SHOVEL, "src-protocol": "amqp10"}))
    sealed = Parameter("/", SHOVEL, "s", {**GOOD_SHOVEL, "src-uri": "sealed:1:AAAA"})
    assert "cannot be decrypted" in stored_problem(sealed)


def test_which_addresses_are_this_broker_itself() -> None:
    assert direct_vhost("amqp://") == ""
    assert direct_vhost("amqp:///a%2Fb") == "a/b"
    assert direct_vhost("amqp://user@/v") == "v"
    assert direct_vhost("amqp://host/v") is None
    assert uris_of({"src-uri": ["a", "b"], "dest-uri": "c", "x": 1}) == ["a", "b", "c"]
