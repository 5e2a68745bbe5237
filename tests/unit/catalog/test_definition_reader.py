"""Definitions out of JSON: what is read, and every problem with its place."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.catalog.definition_reader import PROBLEMS_MAX, read_definitions
from leveret.catalog.records import BindingRecord, ExchangeRecord, Permission, Policy, QueueRecord

HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_what_rabbitmq_writes_is_read() -> None:
    found, problems = read_definitions(
        {
            "rabbit_version": "3.10.8",
            "users": [
                {
                    "name": "u",
                    "password_hash": HASH,
                    "hashing_algorithm": "rabbit_password_hashing_sha256",
                    "tags": ["a"],
                    "limits": {"max-connections": 5},
                }
            ],
            "vhosts": [{"name": "v", "description": "d", "metadata": {"tags": ["t"]}}],
            "permissions": [{"user": "u", "vhost": "v", "configure": "c", "write": "w", "read": "r"}],
            "parameters": [
                {
                    "vhost": "v",
                    "component": "operator_policy",
                    "name": "o",
                    "value": {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"},
                }
            ],
            "policies": [{"vhost": "v", "name": "p", "pattern": "x", "definition": {"max-length": 1}}],
            "queues": [{"name": "q", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {"x": 1}}],
            "exchanges": [
                {
                    "name": "e",
                    "vhost": "v",
                    "type": "topic",
                    "durable": True,
                    "auto_delete": False,
                    "internal": True,
                    "arguments": [],
                }
            ],
            "bindings": [
                {
                    "source": "e",
                    "vhost": "v",
                    "destination": "q",
                    "destination_type": "queue",
                    "routing_key": "k",
                    "arguments": {},
                }
            ],
        }
    )
    assert problems == []
    (user,) = found.users
    assert (user.place, user.record.password_hash) == ("users[0]", f"$rabbit-sha256${HASH}")
    assert user.record.limits == {"max-connections": 5}
    assert (found.vhosts[0].record.description, found.vhosts[0].record.tags) == ("d", ("t",))
    assert found.permissions[0].record == Permission("u", "v", "c", "w", "r")
    assert [one.record for one in found.policies] == [
        Policy("v", "o", "^q", "queues", 1, {"max-length": 5}, operator=True),
        Policy("v", "p", "x", "all", 0, {"max-length": 1}),
    ]
    assert found.parameters == []
    assert found.queues[0].record == QueueRecord("v", "q", "", True, False, 0, {"x": 1})
    assert found.exchanges[0].record == ExchangeRecord("v", "e", "topic", True, False, True, {})
    assert found.bindings[0].record == BindingRecord("v", "e", True, "q", "k", {})


def test_users_with_nothing_but_a_hash_mean_sha256() -> None:
    found, problems = read_definitions({"users": [{"name": "u", "password_hash": HASH, "tags": "a, b"}]})
    assert problems == []
    assert found.users[0].record.password_hash == f"$rabbit-sha256${HASH}"
    assert found.users[0].record.tags == ("a", "b")
    assert found.users[0].record.limits is None


@pytest.mark.parametrize(
    ("section", "entry", "place", "told"),
    [
        ("users", 5, "users[0]", "must be an object"),
        ("users", {"tags": ""}, "users[0].name", "missing"),
        ("users", {"name": "u"}, "users[0].tags", "missing"),
        ("users", {"name": "u", "tags": [5]}, "users[0].tags", "list of texts"),
        ("users", {"name": "u", "tags": "", "password_hash": "zz"}, "users[0].password_hash", "base64"),
        (
            "users",
            {"name": "u", "tags": "", "password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_md5"},
            "users[0].password_hash",
            "MD5",
        ),
        ("users", {"name": "u", "tags": "", "password": "x", "password_hash": ""}, "users[0].password", "as well"),
        ("users", {"name": "u", "tags": "", "limits": 5}, "users[0].limits", "object"),
        ("vhosts", {}, "vhosts[0].name", "missing"),
        ("vhosts", {"name": "x" * 256}, "vhosts[0].name", "longer"),
        ("vhosts", {"name": "v", "tracing": "yes"}, "vhosts[0].tracing", "true or false"),
        ("permissions", {"user": "u", "vhost": "v", "write": "", "read": ""}, "permissions[0].configure", "missing"),
        ("queues", {"name": "q"}, "queues[0].vhost", "missing"),
        ("queues", {"name": "", "vhost": "v"}, "queues[0].name", "empty"),
        ("queues", {"name": "q", "vhost": "v", "durable": "true"}, "queues[0].durable", "true or false"),
        ("queues", {"name": "q", "vhost": "v", "arguments": {"x": None}}, "queues[0].arguments", "x is null"),
        ("exchanges", {"name": "e", "vhost": "v"}, "exchanges[0].type", "missing"),
        (
            "bindings",
            {"source": "e", "vhost": "v", "destination": "q", "destination_type": "zz"},
            "bindings[0].destination_type",
            "queue or exchange",
        ),
        ("policies", {"vhost": "v", "name": "p", "pattern": ""}, "policies[0].definition", "missing"),
        ("parameters", {"vhost": "v", "component": "shovel", "name": "s"}, "parameters[0].value", "missing"),
        ("global_parameters", {"name": "g"}, "global_parameters[0].value", "missing"),
    ],
)
def test_problems_have_their_place(section: str, entry: Any, place: str, told: str) -> None:
    _, problems = read_definitions({section: [entry]})
    assert any(where == place and told in text for where, text in problems), problems


@pytest.mark.parametrize("value", [None, [], "x", 5])
def test_definitions_are_an_object(value: Any) -> None:
    assert read_definitions(value)[1] == [("definitions", "they must be an object")]


def test_a_section_is_a_list() -> None:
    assert read_definitions({"queues": {}})[1] == [("queues", "it must be a list")]


def test_everything_goes_into_the_one_virtual_host() -> None:
    found, problems = read_definitions(
        {
            "users": [{"name": "u", "tags": ""}],
            "vhosts": [{"name": "other"}],
            "permissions": [5],
            "queues": [{"name": "q", "vhost": "other", "durable": True}, {"name": "r"}],
            "policies": [{"name": "p", "vhost": "other", "pattern": "", "definition": {}}],
        },
        "here",
    )
    assert problems == []
    assert [one.record.vhost for one in found.queues + found.policies] == ["here"] * 3  # type: ignore[operator]
    assert not found.users and not found.vhosts and not found.permissions


def test_problems_without_number_are_not_all_looked_for() -> None:
    _, problems = read_definitions({"queues": [{}] * 10_000})
    assert PROBLEMS_MAX <= len(problems) < PROBLEMS_MAX + 10
