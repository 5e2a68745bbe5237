"""Where administration over HTTP differs from RabbitMQ's on purpose: side doors that are shut, secrets that are hidden,
and nothing that answers 500."""

from collections.abc import Iterator
from typing import Any

import pytest

from leveret.testing import Broker
from tests.http_client import Api

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
CANARY = "c4n4ry-s3cr3t"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auth.failures_max": 1_000_000}) as broker:
        api = Api(broker)
        for vhost in ("v", "w"):
            api.put(f"/vhosts/{vhost}")
        for tag in ("management", "policymaker", "monitoring"):
            api.put(f"/users/{tag}", {"password": "x", "tags": tag})
            api.put(f"/permissions/v/{tag}", ALL)
        yield broker


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


@pytest.fixture
def policymaker(broker: Broker) -> Api:
    return Api(broker, "policymaker", "x")


def test_nobody_gets_an_answer_before_he_is_known(broker: Broker) -> None:
    """A body of the wrong kind, or a huge one, is not looked at before it is clear who sends it."""
    stranger, user = Api(broker, None), Api(broker, "management", "x")
    for raw in (b"{", b"[" * 100_000, b"x" * 1_000_000):
        for path in ("/definitions", "/users/bulk-delete", "/definitions/diff"):
            assert stranger.post(path, raw=raw).status == 401
            assert user.post(path, raw=raw).status == 401


def test_small_bodies_are_small(api: Api) -> None:
    assert api.put("/users/x", raw=b'{"tags":"' + b"x" * 100_000 + b'"}').status == 413
    assert api.put("/queues/v/q", raw=b'{"arguments":' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}").status == 400


def test_bulk_deletion_asks_what_deletion_asks(broker: Broker, api: Api) -> None:
    for tag in ("management", "policymaker", "monitoring"):
        assert Api(broker, tag, "x").post("/users/bulk-delete", {"users": ["guest"]}).status == 401
    assert api.get("/users/guest").status == 200


def test_limits_name_no_other_user(broker: Broker, api: Api) -> None:
    for user in ("management", "policymaker"):
        api.put(f"/user-limits/{user}/max-channels", {"value": 7})
    mine = [{"user": "management", "value": {"max-channels": 7}}]
    person, watcher = Api(broker, "management", "x"), Api(broker, "monitoring", "x")
    assert person.get("/user-limits").body == person.get("/user-limits/management").body == mine
    # The same for one that there is and one that there is not.
    others, nobody = person.get("/user-limits/policymaker"), person.get("/user-limits/nosuch")
    assert others.status == nobody.status == 401 and others.body == nobody.body
    assert [one["user"] for one in watcher.get("/user-limits").body] == ["management", "policymaker"]
    for user in ("management", "policymaker"):
        api.delete(f"/user-limits/{user}/max-channels")


def test_limits_are_an_administrators_by_whichever_door(api: Api, policymaker: Api) -> None:
    api.put("/vhost-limits/v/max-queues", {"value": 5})
    path = "/parameters/vhost-limits/v/limits"
    assert policymaker.put(path, {"value": {"max-queues": 500}}).status == 401
    assert policymaker.delete(path).status == 401
    assert api.get("/vhost-limits/v").body == [{"vhost": "v", "value": {"max-queues": 5}}]
    assert api.put(path, {"value": {"max-queues": 6}}).status == 204
    assert api.get("/vhost-limits/v").body == [{"vhost": "v", "value": {"max-queues": 6}}]
    assert api.delete(path).status == 204
    assert api.get("/vhost-limits/v").body == []


def test_operators_policies_are_not_set_as_parameters(api: Api, policymaker: Api) -> None:
    value = {"pattern": "", "definition": {"max-length": 5}, "priority": 0, "apply-to": "all"}
    assert policymaker.put("/parameters/operator_policy/v/o", {"value": value}).status == 400
    api.put("/operator-policies/v/o", {"pattern": "", "definition": {"max-length": 5}})
    assert policymaker.delete("/parameters/operator_policy/v/o").status == 400
    assert api.get("/operator-policies/v/o").status == 200
    assert api.get("/parameters/operator_policy/v/o").body["value"] == value
    api.delete("/operator-policies/v/o")


def test_links_reach_no_further_than_their_makers(api: Api, policymaker: Api) -> None:
    shovel = {"src-uri": "amqp:///v", "src-queue": "a", "dest-uri": "amqp:///w", "dest-queue": "b"}
    refusal = policymaker.put("/parameters/shovel/v/s", {"value": shovel})
    assert refusal.status == 400 and "may not connect to vhost" in refusal.body["reason"]
    assert policymaker.put("/parameters/shovel/v/s", {"value": {**shovel, "dest-uri": "amqp://"}}).status == 201
    assert policymaker.put("/parameters/federation-upstream/v/u", {"value": {"uri": "amqp:///w"}}).status == 400
    api.delete("/parameters/shovel/v/s")


def test_only_administrators_see_passwords(api: Api, policymaker: Api) -> None:
    uri = f"amqps://u:{CANARY}@host/v"
    api.put("/parameters/federation-upstream/v/u", {"value": {"uri": [uri]}})
    api.put("/global-parameters/secret", {"value": {"url": uri}})
    assert api.get("/parameters/federation-upstream/v/u").body["value"] == {"uri": [uri]}
    paths = ("/parameters", "/parameters/federation-upstream", "/parameters/federation-upstream/v")
    for path in (*paths, "/parameters/federation-upstream/v/u", "/global-parameters", "/global-parameters/secret"):
        reply = policymaker.get(path)
        assert reply.status == 200
        assert CANARY not in str(reply.body), path
        assert "amqps://u:****@host/v" in str(reply.body), path
        assert reply.headers["cache-control"] == "no-store"
    assert CANARY not in str(policymaker.put("/parameters/shovel/v/s", {"value": {"src-uri": uri, "x": uri}}).body)
    api.delete("/parameters/federation-upstream/v/u")
    api.delete("/global-parameters/secret")


def test_the_brokers_own_parameters_are_nobodys(api: Api) -> None:
    assert api.put("/global-parameters/leveret.definitions", {"value": 1}).status == 400
    assert api.get("/global-parameters/leveret.definitions").status == 404
    assert api.delete("/global-parameters/leveret.definitions").status == 404


def test_hashing(api: Api, broker: Broker) -> None:
    made = api.post("/auth/hash_password", {"password": "s"}).body
    body = {name: made[name] for name in ("password_hash", "hashing_algorithm")}
    assert api.put("/users/hashed", {**body, "tags": "management"}).status == 201
    assert Api(broker, "hashed", "s").get("/whoami").status == 200
    assert Api(broker, "management", "x").post("/auth/hash_password", {"password": "s"}).status == 401
    assert api.post("/auth/hash_password", {}).status == 400
    assert api.get("/auth/hash_password/s").status == 404


def test_a_hash_may_not_cost_more_than_a_login(api: Api) -> None:
    costly = "$argon2id$v=19$m=4194304,t=100,p=1$c2FsdHNhbHRzYWx0c2FsdA$" + "A" * 43
    body = {"password_hash": costly, "hashing_algorithm": "leveret_password_hashing_argon2id", "tags": ""}
    assert api.put("/users/costly", body).status == 400
    assert api.post("/definitions", {"users": [{"name": "costly", **body}]}).status == 400


def test_weights_of_a_hash_exchange_are_bounded(api: Api) -> None:
    api.put("/exchanges/v/hash", {"type": "x-consistent-hash", "durable": True})
    api.put("/queues/v/weighed")
    assert api.post("/bindings/v/e/hash/q/weighed", {"routing_key": "100000000"}).status == 400
    binding = {"source": "hash", "vhost": "v", "destination": "weighed", "destination_type": "queue"}
    assert api.post("/definitions", {"bindings": [{**binding, "routing_key": "100000000"}]}).status == 400


def test_permissions_are_asked_for_over_http_too(api: Api, broker: Broker) -> None:
    """A tag alone changes nothing: the right to configure, write and read counts as it does over AMQP."""
    api.put("/users/weak", {"password": "x", "tags": "management"})
    api.put("/permissions/v/weak", {"configure": "^mine", "write": "^mine", "read": "^mine"})
    api.put("/queues/v/theirs", {"durable": True})
    api.put("/exchanges/v/theirs", {"durable": True})
    weak = Api(broker, "weak", "x")
    assert weak.put("/queues/v/mine").status == 201
    for method, path in (
        ("PUT", "/queues/v/other"),
        ("DELETE", "/queues/v/theirs"),
        ("DELETE", "/queues/v/theirs/contents"),
        ("PUT", "/exchanges/v/other"),
        ("DELETE", "/exchanges/v/theirs"),
        ("POST", "/bindings/v/e/theirs/q/mine"),
        ("POST", "/bindings/v/e/amq.topic/q/theirs"),
        ("PUT", "/queues/w/mine"),
    ):
        assert weak.ask(method, path, {} if method != "DELETE" else None).status == 401, path
    assert weak.put("/queues/v/mine2", {"arguments": {"x-dead-letter-exchange": "theirs"}}).status == 401


def test_protection(api: Api) -> None:
    path = "/vhosts/kept/deletion/protection"
    api.put("/vhosts/kept")
    assert api.post(path).status == 204
    assert api.get("/vhosts/kept").body["protected_from_deletion"] is True
    refusal = api.delete("/vhosts/kept")
    assert refusal.status == 400 and "protected" in refusal.body["reason"]
    assert api.put("/vhosts/kept", {"description": "d"}).status == 204
    assert api.delete("/vhosts/kept").status == 400
    assert api.delete(path).status == 204
    assert api.delete("/vhosts/kept").status == 204
    assert api.post(path).status == 404


def test_replicas(api: Api) -> None:
    api.put("/queues/v/single")
    for method, path in (
        ("POST", "/queues/quorum/v/single/replicas/add"),
        ("DELETE", "/queues/quorum/v/single/replicas/delete"),
        ("POST", "/queues/quorum/replicas/on/node/grow"),
        ("DELETE", "/queues/quorum/replicas/on/node/shrink"),
        ("GET", "/queues/quorum/v/single/status"),
    ):
        reply = api.ask(method, path, {} if method == "POST" else None)
        assert reply.status == 400 and "no quorum queues" in reply.body["reason"], path
    # A virtual host of that name is nothing special.
    api.put("/vhosts/quorum")
    assert api.put("/queues/quorum/q").status == 201
    assert api.delete("/queues/quorum/q").status == 204


@pytest.mark.parametrize(
    "path",
    [
        "/queues/v/%FF",
        "/exchanges/v/%FF",
        "/vhosts/%FF",
        "/users/%FF",
        "/policies/v/%FF",
        "/parameters/shovel/v/%FF",
        "/parameters/%FF/v/x",
        "/global-parameters/%FF",
        "/permissions/%FF/guest",
        "/vhost-limits/v/%FF",
        "/user-limits/guest/%FF",
    ],
)
def test_names_that_are_no_text_are_refused(api: Api, path: str) -> None:
    body = {"durable": True, "tags": "", "pattern": "", "definition": {"max-length": 1}, "value": 1, **ALL}
    assert api.put(path, body).status == 400
    assert api.delete(path).status in (204, 404)
    assert api.get("/definitions").status == 200


WRONG: list[Any] = [None, [], {}, "x", 5, -1, 1.5, True, "\ud800", "x" * 300, [None], [[]], {"x": None}, 10**30]
BODIES = {
    "/queues/v/n": ("durable", "auto_delete", "arguments", "node"),
    "/exchanges/v/n": ("type", "durable", "internal", "arguments"),
    "/vhosts/n": ("description", "tags", "default_queue_type", "tracing", "metadata"),
    "/users/n": ("password", "password_hash", "hashing_algorithm", "tags", "limits"),
    "/permissions/v/management": ("configure", "write", "read"),
    "/topic-permissions/v/management": ("exchange", "write", "read"),
    "/policies/v/n": ("pattern", "definition", "priority", "apply-to"),
    "/operator-policies/v/n": ("pattern", "definition", "priority", "apply-to"),
    "/vhost-limits/v/max-queues": ("value",),
    "/user-limits/management/max-channels": ("value",),
    "/parameters/shovel/v/n": ("value",),
    "/parameters/federation-upstream/v/n": ("value",),
    "/parameters/federation-upstream-set/v/n": ("value",),
    "/global-parameters/n": ("value",),
}


@pytest.mark.parametrize("path", BODIES)
def test_no_nonsense_breaks_anything(api: Api, path: str) -> None:
    good: dict[str, Any] = {
        "tags": "",
        "configure": "",
        "write": "",
        "read": "",
        "exchange": "amq.topic",
        "pattern": "",
    }
    for field in BODIES[path]:
        for wrong in WRONG:
            body = {**good, field: wrong}
            reply = api.put(path, body)
            assert reply.status in (201, 204, 400, 401), (field, wrong, reply)
    for body in WRONG:
        assert api.put(path, body if body is not None else {}).status in (201, 204, 400, 401)
    if path.split("/")[1] not in ("permissions", "topic-permissions"):
        api.delete(path)


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_no_definitions_break_anything(api: Api, wrong: Any) -> None:
    before = api.get("/definitions").body
    sections = [name for name, value in before.items() if isinstance(value, list)]
    for section in sections:
        assert api.post("/definitions", {section: wrong}).status in (204, 400)
        assert api.post("/definitions", {section: [wrong]}).status == 400
        entry = before[section][0] if before[section] else {"name": "n", "vhost": "v", "value": {}}
        for field in entry:
            reply = api.post("/definitions/diff", {section: [{**entry, field: wrong}]})
            # Half of a pair of surrogates is no JSON.
            assert reply.status == (400 if wrong == "\ud800" else 200), (section, field)
    assert api.get("/definitions").body == before
