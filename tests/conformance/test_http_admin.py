"""Administration over HTTP: what every request answers, on Leveret and on RabbitMQ alike."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.admin_scene import ALL, POLICY, SHOVEL, TOPIC, UPSTREAM, admin_scene
from tests.conformance.http_target import running_api
from tests.http_client import Api, Reply

HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_api() as url:
        yield url


@pytest.fixture
def api(url: str) -> Iterator[Api]:
    with admin_scene(url) as api:
        yield api


def refused(reply: Reply, status: int, error: str, reason: Any) -> None:
    assert (reply.status, reply.body) == (status, {"error": error, "reason": reason})


def bad(reply: Reply, reason: Any) -> None:
    refused(reply, 400, "bad_request", reason)


def missing(reply: Reply) -> None:
    refused(reply, 404, "Object Not Found", "Not Found")


# ---- queues, exchanges, bindings


def test_queues(api: Api) -> None:
    assert api.put("/queues/v/q", {}).status == 201
    assert api.put("/queues/v/q", raw=b"").status == 204
    assert api.put("/queues/v/q", {"durable": "false", "auto_delete": False, "arguments": []}).status == 204
    bad(
        api.put("/queues/v/q", {"durable": True}),
        "inequivalent arg 'durable' for queue 'q' in vhost 'v': received 'true' but current is 'false'",
    )
    bad(
        api.put("/queues/v/q", {"arguments": {"x-max-length": 5}}),
        "inequivalent arg 'x-max-length' for queue 'q' in vhost 'v': received the value '5' of type 'long' but current "
        "is none",
    )
    bad(api.put("/queues/v/q", {"durable": "banana"}), ["not_boolean", "banana"])
    bad(api.put("/queues/v/q", raw=b"{"), "not_json")
    bad(api.put("/queues/v/q", []), "not_json")
    bad(
        api.put("/queues/v/q", raw=b'"{}"'),
        "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?",
    )
    bad(
        api.put("/queues/v/r", {"arguments": {"x-max-length": -1}}),
        "invalid arg 'x-max-length' for queue 'r' in vhost 'v': {value_negative,-1}",
    )
    bad(api.put("/queues/v/r", {"node": "no@where"}), "Node no@where could not be contacted")
    bad(api.put("/queues/v/" + "x" * 256), "queue should be less than 255 bytes, actually was 256\n")
    assert api.put("/queues/v/amq.own").status == 401
    refused(api.put("/queues/nowhere/q"), 404, "not_found", "vhost_not_found")
    missing(api.delete("/queues/v/nosuch"))
    missing(api.delete("/queues/nowhere/q"))
    assert api.delete("/queues/v/q?if-empty=true&if-unused=true").status == 204
    assert api.put("/queues/v/a%2Fb%20%C3%A4").status == 201
    assert api.delete("/queues/v/a%2Fb%20%C3%A4/").status == 204


def test_contents_and_actions(api: Api) -> None:
    api.put("/queues/v/q")
    body = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
    assert api.post("/exchanges/v/amq.default/publish", body).status == 200
    bad(api.delete("/queues/v/q?if-empty=true"), "queue 'q' in vhost 'v' not empty")
    assert api.delete("/queues/v/q/contents").status == 204
    assert api.delete("/queues/v/q?if-empty=true").status == 204
    missing(api.delete("/queues/v/q/contents"))
    api.put("/queues/v/q")
    assert api.post("/queues/v/q/actions", {"action": "sync"}).status == 204
    assert api.post("/queues/v/q/actions", {"action": "cancel_sync"}).status == 204
    bad(api.post("/queues/v/q/actions", {"action": "foo"}), ["unknown", "foo"])
    bad(api.post("/queues/v/q/actions", {}), "[{key_missing,action}]")


def test_exchanges(api: Api) -> None:
    assert api.put("/exchanges/v/e", {"type": "topic", "internal": "true", "durable": True}).status == 201
    assert api.put("/exchanges/v/e", {"type": "topic", "internal": True, "durable": "true"}).status == 204
    bad(
        api.put("/exchanges/v/e", {"type": "fanout", "internal": True, "durable": True}),
        "inequivalent arg 'type' for exchange 'e' in vhost 'v': received 'fanout' but current is 'topic'",
    )
    assert api.put("/exchanges/v/f", {"type": "nonsense"}).status == 400
    bad(
        api.put("/exchanges/v/f", {"arguments": {"alternate-exchange": 5}}),
        "invalid type 'long' for arg 'alternate-exchange' in exchange 'f' in vhost 'v'",
    )
    assert api.put("/exchanges/v/f").status == 201
    assert api.put("/exchanges/v/amq.direct", {"type": "direct", "durable": True}).status == 204
    assert api.put("/exchanges/v/amq.own", {"type": "direct"}).status == 401
    assert api.put("/exchanges/v/amq.default", {"type": "direct"}).status == 401
    assert api.delete("/exchanges/v/amq.direct").status == 401
    assert api.delete("/exchanges/v/amq.default").status == 401
    missing(api.delete("/exchanges/v/nosuch"))
    assert api.post("/bindings/v/e/e/e/f", {}).status == 201
    bad(api.delete("/exchanges/v/e?if-unused=true"), "exchange 'e' in vhost 'v' in use")
    assert api.delete("/exchanges/v/f?if-unused=true").status == 204
    assert api.delete("/exchanges/v/e?if-unused=true").status == 204


def test_bindings(api: Api) -> None:
    api.put("/queues/v/q")
    api.put("/exchanges/v/e", {"type": "topic"})
    made = api.post("/bindings/v/e/e/q/q", {"routing_key": "a.#", "arguments": {}})
    assert (made.status, made.headers["location"]) == (201, "q/a.%2523")
    assert api.post("/bindings/v/e/e/q/q", raw=b"").headers["location"] == "q/~"
    assert api.post("/bindings/v/e/e/q/q", {"routing_key": "~"}).headers["location"] == "q/%257E"
    assert api.post("/bindings/v/e/e/q/q", {"routing_key": "é x"}).headers["location"] == "q/%25C3%25A9%2Bx"
    with_arguments = api.post("/bindings/v/e/e/q/q", {"routing_key": "b", "arguments": {"x": 1}}).headers["location"]
    assert with_arguments.startswith("q/b~")
    refused(api.post("/bindings/v/e/e/q/none", {}), 404, "not_found", "no queue 'none' in vhost 'v'")
    refused(api.post("/bindings/v/e/none/q/q", {}), 404, "not_found", "no exchange 'none' in vhost 'v'")
    refused(api.post("/bindings/nowhere/e/e/q/q", {}), 404, "not_found", "vhost_not_found")
    assert api.post("/bindings/v/e/amq.default/q/q", {"routing_key": "z"}).status == 401
    # As Terraform does: the last part of the address, decoded once, is the key.
    for location in ("q/a.%2523", "q/~", "q/%257E", "q/%25C3%25A9%2Bx", with_arguments):
        assert api.delete(f"/bindings/v/e/e/q/{location}").status == 204, location
    missing(api.delete("/bindings/v/e/e/q/q/a.%2523"))
    missing(api.delete("/bindings/v/e/e/q/q/~zzz"))


# ---- virtual hosts


def test_vhosts(api: Api) -> None:
    assert api.put("/vhosts/w", {"description": "d", "tags": "a,b", "tracing": "true"}).status == 201
    seen = api.get("/vhosts/w").body
    assert (seen["name"], seen["description"], seen["tags"], seen["tracing"]) == ("w", "d", ["a", "b"], True)
    assert seen["metadata"] == {"description": "d", "tags": ["a", "b"]}
    assert list(seen["cluster_state"].values()) == ["running"]
    assert api.put("/vhosts/w", {}).status == 204
    seen = api.get("/vhosts/w").body
    assert (seen["description"], seen["tags"], seen["tracing"]) == ("", [], True)
    bad(api.put("/vhosts/w", {"tracing": "zz"}), ["not_boolean", "zz"])
    assert api.get("/vhosts/w/permissions").body == [{"user": "guest", "vhost": "w", **ALL}]
    assert api.get("/vhosts/w/topic-permissions").body == []
    assert {one["name"] for one in api.get("/vhosts").body} >= {"/", "v", "w"}
    bad(api.post("/vhosts/w/start/no@where"), "Request to node no@where failed with nodedown")
    assert api.delete("/vhosts/w").status == 204
    for path in ("", "/permissions", "/topic-permissions"):
        missing(api.get(f"/vhosts/w{path}"))
    missing(api.delete("/vhosts/w"))


# ---- users


def test_users(api: Api, url: str) -> None:
    bad(api.put("/users/eve", {}), "tags_not_present")
    bad(api.put("/users/eve", raw=b""), "tags_not_present")
    assert api.put("/users/eve", {"password": "s", "tags": "management"}).status == 201
    assert Api(url, "eve", "s").get("/whoami").body == {"name": "eve", "tags": ["management"]}
    assert api.put("/users/eve", {"password": "t", "tags": ["management", "policymaker"]}).status == 204
    assert Api(url, "eve", "s").get("/whoami").status == 401
    assert Api(url, "eve", "t").get("/whoami").body["tags"] == ["management", "policymaker"]
    seen = api.get("/users/eve").body
    assert set(seen) == {"name", "password_hash", "hashing_algorithm", "tags", "limits"}
    bad(
        api.put("/users/eve", {"password": "x", "password_hash": HASH, "tags": ""}),
        "both_password_and_password_hash_are_provided",
    )
    assert api.put("/users/eve", {"password_hash": HASH, "tags": " a , b,,c"}).status == 204
    assert api.get("/users/eve").body == {
        "name": "eve",
        "password_hash": HASH,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": ["a", "b", "c"],
        "limits": {},
    }
    # RabbitMQ's documentation has this hash, of the password test12.
    assert api.put("/users/eve", {"password_hash": HASH, "tags": "management"}).status == 204
    assert Api(url, "eve", "test12").get("/whoami").status == 200
    assert api.put("/users/eve", {"password_hash": "!!", "tags": ""}).status == 400
    # Without a word of a password there is none.
    assert api.put("/users/eve", {"tags": "management"}).status == 204
    assert api.get("/users/eve").body["password_hash"] == ""
    for guess in ("", "t", "test12"):
        assert Api(url, "eve", guess).get("/whoami").status == 401
    assert api.put("/users/eve", {"password": "x", "tags": "", "limits": {"max-channels": 3}}).status == 204
    assert api.get("/users/eve").body["limits"] == {"max-channels": 3}
    assert "eve" in {one["name"] for one in api.get("/users/without-permissions").body}
    assert "guest" not in {one["name"] for one in api.get("/users/without-permissions").body}
    assert api.delete("/users/eve").status == 204
    missing(api.get("/users/eve"))
    missing(api.delete("/users/eve"))
    missing(api.get("/users/eve/permissions"))
    missing(api.get("/users/eve/topic-permissions"))


def test_deleting_many_users(api: Api) -> None:
    for name in ("u1", "u2"):
        api.put(f"/users/{name}", {"password": "x", "tags": ""})
    bad(api.post("/users/bulk-delete", {}), "[{key_missing,users}]")
    bad(api.post("/users/bulk-delete", {"users": ["nobody", "u1"]}), ["no_such_user", "nobody"])
    assert api.get("/users/u1").status == 200
    assert api.post("/users/bulk-delete", {"users": ["u1", "u2"]}).status == 204
    missing(api.get("/users/u1"))
    missing(api.get("/users/u2"))


def test_permissions(api: Api) -> None:
    assert api.put("/permissions/v/victim", ALL).status == 201
    assert api.put("/permissions/v/victim", {**ALL, "write": "^a"}).status == 204
    shown = {"user": "victim", "vhost": "v", "configure": ".*", "write": "^a", "read": ".*"}
    assert api.get("/permissions/v/victim").body == shown
    assert shown in api.get("/permissions").body
    assert api.get("/users/victim/permissions").body == [shown]
    assert shown in api.get("/vhosts/v/permissions").body
    bad(api.put("/permissions/v/victim", {"configure": ""}), "[{key_missing,write},{key_missing,read}]")
    bad(api.put("/permissions/v/nobody", ALL), "vhost_or_user_not_found")
    bad(api.put("/permissions/nowhere/victim", ALL), "vhost_or_user_not_found")
    assert api.put("/permissions/v/victim", {**ALL, "read": "("}).status == 400
    assert api.get("/permissions/v/victim").body == shown
    assert api.delete("/permissions/v/victim").status == 204
    missing(api.delete("/permissions/v/victim"))
    missing(api.get("/permissions/v/victim"))
    missing(api.get("/permissions/nowhere/victim"))


def test_topic_permissions(api: Api) -> None:
    missing(api.get("/topic-permissions/v/victim"))
    assert api.put("/topic-permissions/v/victim", TOPIC).status == 201
    assert api.put("/topic-permissions/v/victim", TOPIC).status == 204
    shown = {"user": "victim", "vhost": "v", **TOPIC}
    assert api.get("/topic-permissions/v/victim").body == [shown]
    assert shown in api.get("/topic-permissions").body
    assert api.get("/users/victim/topic-permissions").body == [shown]
    assert api.get("/vhosts/v/topic-permissions").body == [shown]
    bad(api.put("/topic-permissions/v/victim", {"write": ""}), "[{key_missing,exchange},{key_missing,read}]")
    bad(api.put("/topic-permissions/v/nobody", TOPIC), "vhost_or_user_not_found")
    assert api.put("/topic-permissions/v/victim", {**TOPIC, "read": "("}).status == 400
    assert api.delete("/topic-permissions/v/victim/amq.topic").status == 204
    missing(api.get("/topic-permissions/v/victim"))
    api.put("/topic-permissions/v/victim", TOPIC)
    assert api.delete("/topic-permissions/v/victim").status == 204
    missing(api.delete("/topic-permissions/v/victim"))


# ---- policies, limits, parameters


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_policies(api: Api, kind: str) -> None:
    assert api.put(f"/{kind}/v/p", {**POLICY, "priority": 3, "apply-to": "queues"}).status == 201
    assert api.put(f"/{kind}/v/p", {**POLICY, "extra": 1}).status == 204
    shown = {"vhost": "v", "name": "p", "apply-to": "all", "priority": 0, **POLICY}
    assert api.get(f"/{kind}/v/p").body == shown
    assert api.get(f"/{kind}/v").body == [shown]
    assert shown in api.get(f"/{kind}").body
    bad(api.put(f"/{kind}/v/p", {"pattern": "x"}), "[{key_missing,definition}]")
    bad(api.put(f"/{kind}/v/p", {}), "[{key_missing,pattern},{key_missing,definition}]")
    bad(api.put(f"/{kind}/v/p", {"pattern": "x", "definition": {}}), "Validation failed\n\nno policy provided\n")
    for wrong in ({"pattern": "("}, {"priority": "3"}, {"apply-to": "nonsense"}, {"definition": {"max-length": "5"}}):
        refusal = api.put(f"/{kind}/v/p", {**POLICY, **wrong})
        assert refusal.status == 400 and refusal.body["reason"].startswith("Validation failed\n\n")
    assert api.put(f"/{kind}/v/p", {**POLICY, "definition": {"nonsense": 1}}).status == 400
    refused(api.put(f"/{kind}/nowhere/p", POLICY), 404, "not_found", "vhost_not_found")
    missing(api.get(f"/{kind}/nowhere"))
    missing(api.get(f"/{kind}/v/nosuch"))
    missing(api.delete(f"/{kind}/v/nosuch"))
    assert api.delete(f"/{kind}/v/p").status == 204
    assert api.get(f"/{kind}/v").body == []


def test_operators_policies_only_lower_limits(api: Api) -> None:
    bad(
        api.put("/operator-policies/v/p", {"pattern": "", "definition": {"dead-letter-exchange": "x"}}),
        'Validation failed\n\n[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings\n',
    )


def test_limits_of_a_vhost(api: Api) -> None:
    assert api.get("/vhost-limits/v").body == []
    assert api.put("/vhost-limits/v/max-queues", {"value": 5}).status == 204
    assert api.put("/vhost-limits/v/max-connections", {"value": -1}).status == 204
    shown = {"vhost": "v", "value": {"max-queues": 5, "max-connections": -1}}
    assert api.get("/vhost-limits/v").body == [shown]
    assert shown in api.get("/vhost-limits").body
    assert api.get("/parameters/vhost-limits/v").body == [
        {"value": shown["value"], "vhost": "v", "component": "vhost-limits", "name": "limits"}
    ]
    bad(api.put("/vhost-limits/v/max-queues", {}), "[{key_missing,value}]")
    bad(
        api.put("/vhost-limits/v/max-queues", {"value": "5"}),
        'Validation failed\n\nmax-queues should be a number, actually was <<"5">>\n',
    )
    bad(
        api.put("/vhost-limits/v/nonsense", {"value": 5}),
        'Validation failed\n\nUnrecognised terms [{<<"nonsense">>,5}] in limits\n',
    )
    refused(api.put("/vhost-limits/nowhere/max-queues", {"value": 5}), 404, "not_found", "vhost_not_found")
    missing(api.get("/vhost-limits/nowhere"))
    assert api.delete("/vhost-limits/v/max-queues").status == 204
    assert api.delete("/vhost-limits/v/max-queues").status == 204
    assert api.delete("/vhost-limits/v/max-connections").status == 204
    assert api.get("/vhost-limits/v").body == []


def test_limits_of_a_user(api: Api) -> None:
    assert api.get("/user-limits/victim").body == []
    assert api.put("/user-limits/victim/max-channels", {"value": 5}).status == 204
    shown = {"user": "victim", "value": {"max-channels": 5}}
    assert api.get("/user-limits/victim").body == [shown]
    assert shown in api.get("/user-limits").body
    bad(
        api.put("/user-limits/victim/max-channels", {"value": "5"}),
        'max-channels should be a number, actually was <<"5">>',
    )
    bad(api.put("/user-limits/victim/nonsense", {"value": 5}), 'Unrecognised terms [{<<"nonsense">>,5}] in user-limits')
    bad(api.put("/user-limits/nobody/max-channels", {"value": 5}), ["no_such_user", "nobody"])
    missing(api.get("/user-limits/nobody"))
    assert api.delete("/user-limits/victim/max-channels").status == 204
    assert api.get("/user-limits/victim").body == []


def test_parameters(api: Api) -> None:
    assert api.put("/parameters/federation-upstream/v/u", {"value": UPSTREAM}).status == 201
    assert api.put("/parameters/federation-upstream/v/u", {"value": UPSTREAM}).status == 204
    shown = {"value": UPSTREAM, "vhost": "v", "component": "federation-upstream", "name": "u"}
    assert api.get("/parameters/federation-upstream/v/u").body == shown
    assert api.get("/parameters/federation-upstream/v").body == [shown]
    assert api.get("/parameters/federation-upstream").body == [shown]
    assert shown in api.get("/parameters").body
    assert api.put("/parameters/federation-upstream-set/v/s", {"value": [{"upstream": "u"}]}).status == 201
    assert api.put("/parameters/shovel/v/s", {"value": SHOVEL}).status == 201
    bad(api.put("/parameters/nonsense/v/x", {"value": {}}), "Validation failed\n\ncomponent nonsense not found\n")
    bad(api.put("/parameters/shovel/v/x", {}), "[{key_missing,value}]")
    bad(api.put("/parameters/policy/v/x", {"value": POLICY}), "policies may not be set using this method")
    bad(
        api.put("/parameters/federation-upstream-set/v/s", {"value": [{}]}),
        'Validation failed\n\nKey "upstream" not found in s\n',
    )
    for wrong in ({"src-uri": "http://"}, {"src-exchange": "e"}, {"nonsense": 1}, {"prefetch-count": "x"}):
        assert api.put("/parameters/shovel/v/s", {"value": {**SHOVEL, **wrong}}).status == 400
    refused(api.put("/parameters/shovel/nowhere/x", {"value": {}}), 404, "not_found", "vhost_not_found")
    missing(api.get("/parameters/shovel/nowhere"))
    missing(api.delete("/parameters/shovel/v/nosuch"))
    assert api.get("/parameters/nonsense").body == []
    assert api.get("/parameters/nonsense/v").body == []
    for path in ("shovel/v/s", "federation-upstream-set/v/s", "federation-upstream/v/u"):
        assert api.delete(f"/parameters/{path}").status == 204
    missing(api.get("/parameters/shovel/v/s"))


def test_global_parameters(api: Api) -> None:
    assert api.put("/global-parameters/g", {"value": {"a": [1, None]}}).status == 201
    assert api.put("/global-parameters/g", {"name": "other", "value": 5}).status == 204
    assert api.get("/global-parameters/g").body == {"name": "g", "value": 5}
    assert {"name": "g", "value": 5} in api.get("/global-parameters").body
    bad(api.put("/global-parameters/g", {}), "[{key_missing,value}]")
    assert api.delete("/global-parameters/g").status == 204
    missing(api.get("/global-parameters/g"))
    missing(api.delete("/global-parameters/g"))


def test_links(api: Api) -> None:
    links = ("", "/v", "/state/down", "/v/state/down")
    for path in ("/shovels", "/shovels/v", *(f"/federation-links{one}" for one in links)):
        assert (api.get(path).status, api.get(path).body) == (200, []), path
    missing(api.get("/shovels/vhost/v/nosuch"))
    missing(api.delete("/shovels/vhost/v/nosuch"))
    missing(api.delete("/shovels/vhost/v/nosuch/restart"))
    api.put("/parameters/shovel/v/s", {"value": SHOVEL})
    assert api.delete("/shovels/vhost/v/s").status == 204
    missing(api.get("/parameters/shovel/v/s"))
