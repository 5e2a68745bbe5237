"""rabbitmqadmin makes, changes and deletes every kind of thing it knows; with names that are awkward in addresses."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.http_target import running_api
from tests.conformance.rabbitmqadmin import Admin
from tests.http_client import Api, name

AWKWARD = ["plain", "with a space", "a/b", "ä ö 水 🐇", "100%", "a+b&c=d?e#f", "quote\"'"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_api() as url:
        yield url


@pytest.fixture
def admin(url: str, tmp_path: Path) -> Admin:
    return Admin(url, str(tmp_path))


@pytest.fixture
def api(url: str) -> Api:
    return Api(url)


@pytest.mark.parametrize("queue", AWKWARD)
def test_queues_and_bindings_with_any_name(admin: Admin, api: Api, queue: str) -> None:
    exchange = f"x {queue}"
    assert admin("declare", "queue", f"name={queue}", "durable=true") == "queue declared"
    assert admin("declare", "exchange", f"name={exchange}", "type=topic") == "exchange declared"
    binding = ("declare", "binding", f"source={exchange}", f"destination={queue}", f"routing_key={queue}")
    assert admin(*binding) == "binding declared"
    assert queue in admin.named("queues")
    (made,) = [one for one in admin.listed("bindings") if one["source"] == exchange]
    assert (made["destination"], made["routing_key"]) == (queue, queue)
    assert admin("publish", f"exchange={exchange}", f"routing_key={queue}", "payload=hello") == "Message published"
    (message,) = json.loads(admin("-f", "raw_json", "get", f"queue={queue}", "ackmode=ack_requeue_false"))
    assert (message["payload"], message["exchange"], message["routing_key"]) == ("hello", exchange, queue)
    place = (f"source={exchange}", "destination_type=queue", f"destination={queue}")
    assert admin("delete", "binding", *place, f"properties_key={made['properties_key']}") == "binding deleted"
    assert admin("delete", "exchange", f"name={exchange}") == "exchange deleted"
    assert admin("delete", "queue", f"name={queue}") == "queue deleted"
    assert queue not in admin.named("queues")
    assert api.get(f"/queues/%2F/{name(queue)}").status == 404


def test_a_binding_without_a_key_and_one_to_an_exchange(admin: Admin) -> None:
    admin("declare", "exchange", "name=from", "type=fanout", "durable=false", "auto_delete=false", "internal=false")
    admin("declare", "exchange", "name=to", "type=headers")
    admin("declare", "binding", "source=from", "destination=to", "destination_type=exchange")
    arguments = 'arguments={"x-match": "any", "colour": "red", "size": 3}'
    admin("declare", "queue", "name=bound")
    admin("declare", "binding", "source=to", "destination=bound", arguments)
    found = {one["source"]: one for one in admin.listed("bindings") if one["source"]}
    assert found["from"]["properties_key"] == "~"
    assert found["to"]["arguments"] == {"x-match": "any", "colour": "red", "size": 3}
    assert admin("delete", "binding", "source=from", "destination_type=exchange", "destination=to") == "binding deleted"
    properties = f"properties_key={found['to']['properties_key']}"
    admin("delete", "binding", "source=to", "destination_type=queue", "destination=bound", properties)
    assert [one for one in admin.listed("bindings") if one["source"]] == []
    for word in ("name=from", "name=to"):
        admin("delete", "exchange", word)
    admin("delete", "queue", "name=bound")


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_queue_of_a_type(admin: Admin, api: Api, kind: str) -> None:
    if kind == "quorum" and "leveret_version" in api.get("/overview").body:
        pytest.skip("quorum queues are not built yet")
    assert admin("declare", "queue", f"name=of-{kind}", f"queue_type={kind}") == "queue declared"
    found = api.get(f"/queues/%2F/of-{kind}").body
    assert (found["type"], found["arguments"]["x-queue-type"]) == (kind, kind)
    admin("delete", "queue", f"name=of-{kind}")


def test_a_queue_with_arguments(admin: Admin, api: Api) -> None:
    words = ("declare", "queue", "name=argued", "auto_delete=true", 'arguments={"x-max-length": 5, "x-expires": 60000}')
    admin(*words)
    admin(*words)
    found = api.get("/queues/%2F/argued").body
    assert found["arguments"] == {"x-max-length": 5, "x-expires": 60000}
    assert (found["durable"], found["auto_delete"]) == (True, True)
    told = admin.refused("declare", "queue", "name=argued", "durable=false")
    assert told.startswith("inequivalent arg 'durable' for queue 'argued' in vhost '/'")
    admin("delete", "queue", "name=argued")


def test_messages(admin: Admin, tmp_path: Path) -> None:
    admin("declare", "queue", "name=letters")
    words = ("publish", "routing_key=letters", "payload=one", 'properties={"delivery_mode": 2, "headers": {"n": 1}}')
    assert admin(*words) == "Message published"
    assert admin("publish", "routing_key=letters", given="two, from a file\n") == "Message published"
    assert admin("publish", "routing_key=letters", "payload=AP8=", "payload_encoding=base64") == "Message published"
    assert admin("publish", "routing_key=nobody", "payload=lost") == "Message published but NOT routed"
    got = json.loads(admin("-f", "raw_json", "get", "queue=letters", "count=10"))
    assert [(one["payload"], one["payload_encoding"]) for one in got] == [
        ("one", "string"), ("two, from a file\n", "string"), ("AP8=", "base64"),
    ]  # fmt: skip
    assert [(one["redelivered"], one["message_count"]) for one in got] == [(False, 2), (False, 1), (False, 0)]
    assert got[0]["properties"] == {"delivery_mode": 2, "headers": {"n": 1}}
    kept = tmp_path / "payload"
    table = admin("get", "queue=letters", f"payload_file={kept}", "ackmode=reject_requeue_true")
    assert kept.read_text() == "one"
    assert [cell.strip() for cell in table.splitlines()[3].split("|")[1:-1]] == ["letters", "", "2", "3", "True"]
    for mode, left in (("ack_requeue_false", 2), ("reject_requeue_false", 1)):
        got = json.loads(admin("-f", "raw_json", "get", "queue=letters", f"ackmode={mode}"))
        assert got[0]["message_count"] == left
    assert "AP8=" in admin("get", "queue=letters", "encoding=base64")
    assert admin("purge", "queue", "name=letters") == "queue purged"
    assert admin("get", "queue=letters") == "No items"
    admin("delete", "queue", "name=letters")


# The script itself asks for the lists of a virtual host with a space in its name by the wrong address: with a plus.
@pytest.mark.parametrize("vhost", ["team", "team/a", "水"])
def test_virtual_hosts_users_and_permissions(admin: Admin, url: str, vhost: str) -> None:
    assert admin("declare", "vhost", f"name={vhost}", "tracing=false") == "vhost declared"
    assert admin("declare", "user", "name=ann/ä", "password=p:s", "tags=management,x") == "user declared"
    words = (f"vhost={vhost}", "user=ann/ä", "configure=^a", "write=.*", "read=")
    assert admin("declare", "permission", *words) == "permission declared"
    (permission,) = [one for one in admin.listed("permissions") if one["user"] == "ann/ä"]
    assert permission == {"user": "ann/ä", "vhost": vhost, "configure": "^a", "write": ".*", "read": ""}
    own = Admin(url, admin.home, ("-u", "ann/ä", "-p", "p:s", "-V", vhost))
    assert own("declare", "queue", "name=a1") == "queue declared"
    assert own.named("queues") == ["a1"]
    assert own.named("vhosts") == [vhost]
    assert own.refused("declare", "queue", "name=b1").startswith("Access refused: /api/queues/")
    assert own.refused("list", "users") == "Access refused: /api/users"
    assert own.refused("purge", "queue", "name=a1").startswith("Access refused: /api/queues/")
    assert admin("delete", "permission", f"vhost={vhost}", "user=ann/ä") == "permission deleted"
    assert own.refused("declare", "queue", "name=a2").startswith("Access refused")
    assert admin("delete", "user", "name=ann/ä") == "user deleted"
    assert own.refused("list", "queues").startswith("Access refused")
    assert admin("delete", "vhost", f"name={vhost}") == "vhost deleted"
    assert admin.named("vhosts") == ["/"]


def test_a_user_with_a_hash(admin: Admin, url: str) -> None:
    # Of the password test12.
    hashed = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    admin("declare", "user", "name=hashed", f"password_hash={hashed}", "tags=monitoring")
    own = Admin(url, admin.home, ("-u", "hashed", "-p", "test12"))
    assert len(own.listed("nodes")) == 1
    admin("delete", "user", "name=hashed")


def test_policies_parameters_limits(admin: Admin) -> None:
    for kind in ("policy", "operator_policy"):
        words = (f"name=p {kind}", "pattern=^a", 'definition={"max-length": 7}', "priority=3", "apply-to=queues")
        assert admin("declare", kind, *words) == f"{kind} declared"
        plural = "policies" if kind == "policy" else "operator_policies"
        (found,) = admin.listed(plural)
        assert (found["name"], found["definition"], found["priority"]) == (f"p {kind}", {"max-length": 7}, 3)
        assert '{"max-length": 7}' in admin("list", plural)
        assert admin("delete", kind, f"name=p {kind}") == f"{kind} deleted"
        assert admin("list", plural) == "No items"
    upstream = ("component=federation-upstream", "name=up stream")
    assert admin("declare", "parameter", *upstream, 'value={"uri": "amqp://localhost"}') == "parameter declared"
    (found,) = admin.listed("parameters")
    assert (found["component"], found["name"], found["vhost"]) == ("federation-upstream", "up stream", "/")
    assert admin("delete", "parameter", *upstream) == "parameter deleted"
    assert admin("declare", "vhost_limit", "vhost=/", "name=max-queues", "value=9") == "vhost_limit declared"
    assert admin.listed("vhost_limits") == [{"vhost": "/", "value": {"max-queues": 9}}]
    assert admin("delete", "vhost_limit", "vhost=/", "name=max-queues") == "vhost_limit deleted"
    assert "max-queues" not in admin("list", "vhost_limits")


def test_export_and_import(admin: Admin, tmp_path: Path) -> None:
    admin("declare", "queue", "name=kept", 'arguments={"x-max-length": 5}')
    admin("declare", "binding", "source=amq.topic", "destination=kept", "routing_key=a.#")
    for words in ((), ("-V", "/")):
        file = tmp_path / "definitions.json"
        assert admin(*words, "export", str(file)) == f'Exported definitions for 127.0.0.1 to "{file}"'
        assert [one["name"] for one in json.loads(file.read_text())["queues"]] == ["kept"]
        admin("delete", "queue", "name=kept")
        assert admin(*words, "import", str(file)).startswith("Uploaded definitions from")
        assert [one["routing_key"] for one in admin.listed("bindings") if one["source"]] == ["a.#"]
    admin("delete", "queue", "name=kept")


def test_what_is_wrong_is_said_in_one_line(admin: Admin) -> None:
    assert admin.refused("delete", "queue", "name=none") == "Not found: /api/queues/%2F/none"
    assert admin.refused("-V", "none", "declare", "queue", "name=q").startswith("Not found: ")
    assert admin.refused("-p", "wrong", "list", "queues").startswith("Access refused: /api/queues")
    assert "unknown exchange type" in admin.refused("declare", "exchange", "name=x", "type=nonsense")
    assert admin.refused("declare", "policy", "name=p", "pattern=a", 'definition={"nonsense": 1}')
    assert admin.refused("declare", "policy", "name=p", "pattern=(", 'definition={"max-length": 1}')
    assert admin.refused("declare", "vhost_limit", "vhost=/", "name=max-nonsense", "value=1")
    assert admin.refused("publish", "routing_key=a", "payload=b", 'properties={"delivery_mode": "2"}')
    assert admin.refused("get", "queue=none") == "Not found: /api/queues/%2F/none/get"
    assert admin.refused("close", "connection", "name=none") == "Not found: /api/connections/none"
    assert admin.refused("delete", "binding", "source=amq.topic", "destination_type=queue", "destination=none")
