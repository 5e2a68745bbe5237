"""Definitions of RabbitMQ: what we have stays as it is, what we do not have is changed or left out, and said."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.errors import ConfigError
from leveret.node.migrate.definitions import adapt, refusals
from leveret.node.migrate.findings import CHANGED, IGNORED, TAKEN, UNSUPPORTED

SHA256 = "rabbit_password_hashing_sha256"
HASH = "2lAewVzQBRK7iMMh50Ffz2Q08AHRWakBvjjfxf9cyb/YRsHg"


def adapted(**sections: Any) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    made, findings = adapt(sections, "defs.json")
    assert findings[0].verdict == TAKEN and findings[0].place == "defs.json"
    return made, [(finding.verdict, finding.what, finding.text) for finding in findings[1:]]


def queue(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}, **more}


def test_what_we_have_stays_as_it_is() -> None:
    given: dict[str, Any] = {
        "rabbit_version": "3.10.8",
        "users": [
            {
                "name": "guest",
                "password_hash": HASH,
                "hashing_algorithm": SHA256,
                "tags": ["administrator"],
                "limits": {},
            },
            {"name": "nobody", "password_hash": "", "hashing_algorithm": SHA256, "tags": "", "limits": {}},
        ],
        "vhosts": [{"name": "/"}, {"name": "v", "metadata": {"default_queue_type": "classic"}}],
        "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
        "topic_permissions": [{"user": "guest", "vhost": "/", "exchange": "amq.topic", "write": ".*", "read": "^a"}],
        "parameters": [{"component": "vhost-limits", "name": "limits", "vhost": "v", "value": {"max-queues": 3}}],
        "global_parameters": [{"name": "mine", "value": {"a": 1}}],
        "policies": [
            {
                "vhost": "/",
                "name": "p",
                "pattern": "^q",
                "apply-to": "queues",
                "definition": {"max-length": 5},
                "priority": 1,
            }
        ],
        "queues": [
            queue("q", arguments={"x-message-ttl": 5, "x-own": "kept"}),
            queue("s", arguments={"x-queue-type": "stream"}),
        ],
        "exchanges": [
            {"name": "x", "vhost": "/", "type": "x-delayed-message", "arguments": {"x-delayed-type": "topic"}},
        ],
        "bindings": [
            {
                "source": "x",
                "vhost": "/",
                "destination": "q",
                "destination_type": "queue",
                "routing_key": "",
                "arguments": {},
            }
        ],
    }
    made, told = adapted(**given)
    assert made == given
    assert told == []
    assert refusals(made, "defs.json") == []


def test_a_queue_of_a_type_that_is_not_there_becomes_classic() -> None:
    arguments = {"x-queue-type": "herring", "x-quorum-initial-group-size": 3, "x-max-length": 7}
    made, told = adapted(queues=[queue("q", arguments=arguments)])
    assert made["queues"] == [queue("q", arguments={"x-max-length": 7})]
    text = "there are no herring queues: it becomes a durable classic one, without x-quorum-initial-group-size"
    assert told == [(CHANGED, "queue 'q' in vhost '/'", text)]


def test_a_virtual_host_has_no_default_type_that_is_not_there() -> None:
    made, told = adapted(
        vhosts=[{"name": "v", "default_queue_type": "herring", "metadata": {"default_queue_type": "herring"}}]
    )
    assert made["vhosts"] == [{"name": "v", "metadata": {}}]
    assert [verdict for verdict, _, _ in told] == [CHANGED]


def test_a_hash_that_is_not_taken_leaves_a_user_without_a_password() -> None:
    users = [{"name": "ann", "password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_md5", "tags": []}]
    users.append({"name": "bob", "password_hash": "!!!", "hashing_algorithm": SHA256, "tags": []})
    made, told = adapted(users=users)
    assert [(user["name"], user["password_hash"]) for user in made["users"]] == [("ann", ""), ("bob", "")]
    assert [(verdict, what) for verdict, what, _ in told] == [(UNSUPPORTED, "user 'ann'"), (UNSUPPORTED, "user 'bob'")]
    assert all("he cannot log in until he has a new one" in text for _, _, text in told)
    assert HASH not in str(told) and "!!!" not in str(told)


def test_a_queue_that_cannot_be_goes_with_its_bindings() -> None:
    binding = {"source": "amq.direct", "vhost": "/", "destination_type": "queue", "routing_key": "k", "arguments": {}}
    made, told = adapted(
        queues=[queue("bad", arguments={"x-message-ttl": -1}), queue("good")],
        bindings=[{**binding, "destination": "bad"}, {**binding, "destination": "good"}],
    )
    assert [each["name"] for each in made["queues"]] == ["good"]
    assert [each["destination"] for each in made["bindings"]] == ["good"]
    assert told[0][:2] == (UNSUPPORTED, "queue 'bad' in vhost '/'")
    assert told[0][2].startswith("left out: ") and "x-message-ttl" in told[0][2]
    assert told[1][1:] == ("binding of queue 'bad' to 'amq.direct' in vhost '/'", "left out with what it bound")


def test_an_exchange_of_a_type_that_is_not_there_goes_with_its_bindings() -> None:
    exchange = {"name": "x", "vhost": "/", "type": "x-herring", "durable": True, "arguments": {}}
    binding = {"vhost": "/", "routing_key": "", "arguments": {}}
    made, told = adapted(
        exchanges=[exchange, {**exchange, "name": "y", "type": "direct"}],
        bindings=[
            {**binding, "source": "x", "destination": "q", "destination_type": "queue"},
            {**binding, "source": "y", "destination": "x", "destination_type": "exchange"},
            {**binding, "source": "y", "destination": "x", "destination_type": "queue"},
        ],
    )
    assert [each["name"] for each in made["exchanges"]] == ["y"]
    assert made["bindings"] == [{**binding, "source": "y", "destination": "x", "destination_type": "queue"}]
    assert told[0] == (UNSUPPORTED, "exchange 'x' in vhost '/'", "left out: there is no type x-herring")


def test_a_policy_loses_keys_that_nobody_knows() -> None:
    policy = {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "all", "priority": 0}
    made, told = adapted(
        policies=[
            {**policy, "definition": {"herring": "all", "max-length": 3}},
            {**policy, "name": "only", "definition": {"herring": "all"}},
            {**policy, "name": "bad", "definition": {"max-length": "many"}},
        ]
    )
    assert made["policies"] == [{**policy, "definition": {"max-length": 3}}]
    assert [(verdict, what) for verdict, what, _ in told] == [
        (CHANGED, "policy 'p' in vhost '/'"),
        (UNSUPPORTED, "policy 'only' in vhost '/'"),
        (UNSUPPORTED, "policy 'bad' in vhost '/'"),
    ]


def test_a_policy_with_mirroring_keeps_its_place_and_is_said_to_have_no_effect() -> None:
    policy = {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "all", "priority": 0}
    given = {**policy, "definition": {"ha-mode": "all"}}
    made, told = adapted(policies=[given])
    assert made["policies"] == [given]
    text = "kept, but there are no mirrored queues: ha-mode would have no effect"
    assert told == [(UNSUPPORTED, "policy 'p' in vhost '/'", text)]


def test_operators_policies_are_judged_too() -> None:
    value = {"pattern": ".*", "apply-to": "queues", "priority": 0, "definition": {"max-length": 3, "herring": 1}}
    parameter = {"component": "operator_policy", "vhost": "/", "name": "op", "value": value}
    made, told = adapted(parameters=[parameter])
    assert made["parameters"][0]["value"]["definition"] == {"max-length": 3}
    assert told[0][:2] == (CHANGED, "operator_policy 'op' in vhost '/'")


def test_shovels_are_kept_and_said_to_run_and_bad_ones_left_out_without_their_passwords() -> None:
    uri = "amqp://u:canary@h"
    value = {"src-uri": uri, "src-queue": "a", "dest-uri": uri, "dest-queue": "b"}
    good = {"component": "shovel", "vhost": "/", "name": "s", "value": value}
    amqp10 = {**good, "name": "ten", "value": {**value, "src-protocol": "amqp10", "src-address": uri}}
    upstream = {"component": "federation-upstream", "vhost": "/", "name": "u", "value": {"uri": uri}}
    parameters = [good, amqp10, upstream]
    made, told = adapted(parameters=parameters, global_parameters=[{"name": "internal_cluster_id", "value": "x"}])
    assert made == {"parameters": [good, upstream], "global_parameters": []}
    assert [verdict for verdict, _, _ in told] == [CHANGED, UNSUPPORTED, IGNORED]
    assert "amqp10" in told[1][2]
    assert "canary" not in str(told)


def test_policies_of_federation_are_kept() -> None:
    policy = {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "all", "priority": 0}
    given = {**policy, "definition": {"federation-upstream-set": "all"}}
    made, told = adapted(policies=[given])
    assert (made["policies"], told) == ([given], [])


def test_a_pattern_that_cannot_be_used_is_left_out() -> None:
    permission = {"user": "u", "vhost": "/", "configure": "^(?!a)", "write": "", "read": ""}
    made, told = adapted(permissions=[permission])
    assert made["permissions"] == []
    assert told[0][1] == "permission of 'u' in vhost '/'"


def test_what_the_import_would_still_refuse_is_told() -> None:
    binding = {"vhost": "/", "source": "amq.direct", "destination": "gone", "destination_type": "queue"}
    made, told = adapted(vhosts=[{"name": "/"}], bindings=[{**binding, "routing_key": "", "arguments": {}}])
    assert told == []
    (finding,) = refusals(made, "defs.json")
    assert (finding.verdict, finding.place) == (UNSUPPORTED, "defs.json")
    assert finding.what.startswith("import of bindings[0]") and "gone" in finding.text


@pytest.mark.parametrize(
    ("definitions", "refusal"),
    [
        ([], "definitions are an object of lists"),
        ({"queues": {}}, "queues must be a list"),
        ({"queues": ["q"]}, r"queues\[0\] must be an object"),
        ({"queues": [{"vhost": "/"}]}, r"queues\[0\]: name is missing"),
        ({"queues": [{"vhost": 1, "name": "q"}]}, r"queues\[0\]: vhost must be text"),
        ({"users": [{"name": None}]}, r"users\[0\]: name must be text"),
        (
            {"parameters": [{"component": "operator_policy", "vhost": "/", "name": "o", "value": 1}]},
            "must be an object",
        ),
        ({"queues": [queue("q", arguments=[1])]}, r"queues\[0\]"),
    ],
)
def test_what_are_no_definitions_is_refused(definitions: Any, refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal) as refused:
        adapt(definitions, "defs.json")
    assert str(refused.value).startswith("defs.json: ")
