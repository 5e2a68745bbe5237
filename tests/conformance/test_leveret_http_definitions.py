"""Definitions over HTTP: out, in, compared; to RabbitMQ and back; at the start of a node; over a crash."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret import __version__
from leveret.errors import StartupError
from leveret.testing import Broker
from tests.conformance.http_target import running_rabbitmq_api
from tests.conformance.server_process import free_port, kill_process, spawn, wait_until_serving
from tests.http_client import Api

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auth.password_hash": "rabbit_sha256"}) as broker:
        yield broker


@pytest.fixture
def api(broker: Broker) -> Iterator[Api]:
    api = Api(broker)
    yield api
    for vhost in api.get("/vhosts").body:
        if vhost["name"] != "/":
            api.delete("/vhosts/" + vhost["name"])
    for user in api.get("/users").body:
        if user["name"] != "guest":
            api.delete("/users/" + user["name"])


def furnish(api: Api) -> None:
    """One of everything that definitions hold."""
    for path, body in (
        ("/vhosts/v", {"description": "d", "tags": "a,b"}),
        ("/users/eve", {"password": "s3cr3t", "tags": "management"}),
        ("/users/none", {"password_hash": "", "tags": ""}),
        ("/user-limits/eve/max-connections", {"value": 5}),
        ("/permissions/v/eve", {"configure": "^a", "write": "", "read": ".*"}),
        ("/topic-permissions/v/eve", {"exchange": "amq.topic", "write": "^a", "read": "^b"}),
        ("/vhost-limits/v/max-queues", {"value": 50}),
        ("/policies/v/p", {"pattern": "^q", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}),
        ("/operator-policies/v/o", {"pattern": "^q", "definition": {"max-length": 4}}),
        ("/parameters/federation-upstream/v/u", {"value": {"uri": "amqp://u:secret@h/v", "expires": 3600000}}),
        ("/global-parameters/g", {"value": {"a": [1, 2.5, "x", None, True]}}),
        ("/queues/v/q", {"durable": True, "arguments": {"x-max-length": 3, "x-overflow": "reject-publish"}}),
        ("/queues/v/s", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
        ("/queues/v/%C3%A4%2F%20", {"durable": True}),
        ("/queues/v/passing", {"durable": False}),
        ("/exchanges/v/e", {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}}),
        ("/exchanges/v/h", {"type": "headers", "durable": True, "internal": True}),
    ):
        assert api.put(path, body).status in (201, 204), path
    for path, body in (
        ("/bindings/v/e/e/q/q", {"routing_key": "a.#"}),
        ("/bindings/v/e/h/q/q", {"arguments": {"x-match": "any", "n": 1, "t": "x", "f": 1.5, "b": True}}),
        ("/bindings/v/e/e/e/h", {"routing_key": "k"}),
    ):
        assert api.post(path, body).status == 201, path


def sorted_sections(definitions: dict[str, Any]) -> dict[str, Any]:
    return {
        section: sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
        for section, entries in definitions.items()
        if isinstance(entries, list)
    }


def test_an_export_is_what_there_is(api: Api) -> None:
    furnish(api)
    reply = api.get("/definitions")
    out = reply.body
    assert out["product_name"] == "RabbitMQ" and out["rabbit_version"] == out["product_version"]
    assert out["leveret_version"] == __version__
    assert list(out)[5:] == [
        "users",
        "vhosts",
        "permissions",
        "topic_permissions",
        "global_parameters",
        "parameters",
        "policies",
        "queues",
        "exchanges",
        "bindings",
    ]
    assert {queue["name"] for queue in out["queues"]} == {"q", "s", "ä/ "}
    assert {"name": "g", "value": {"a": [1, 2.5, "x", None, True]}} in out["global_parameters"]
    assert {one["component"] for one in out["parameters"]} == {"vhost-limits", "operator_policy", "federation-upstream"}
    assert reply.headers["cache-control"] == "no-store"
    assert api.get("/all-configuration").body == out
    named = api.get("/definitions?download=broker.json").headers["content-disposition"]
    assert named == "attachment; filename=broker.json"
    # Nothing that a header would trip over.
    for name in ("..%2F..%2Fx", "a%0d%0ab", "x%22y", "%C3%A4"):
        named = api.get(f"/definitions?download={name}").headers["content-disposition"]
        assert named == "attachment; filename=definitions.json"


def test_an_import_of_an_export_changes_nothing(api: Api) -> None:
    furnish(api)
    out = api.get("/definitions").body
    difference = api.post("/definitions/diff", out)
    assert difference.status == 200
    assert (difference.body["create"], difference.body["change"], difference.body["problems"]) == ([], [], [])
    assert api.post("/definitions", out).status == 204
    assert api.get("/definitions").body == out


def test_what_was_deleted_comes_back(api: Api, broker: Broker) -> None:
    furnish(api)
    out = api.get("/definitions").body
    api.delete("/vhosts/v")
    api.delete("/users/eve")
    difference = api.post("/definitions/diff", out).body
    assert {"kind": "queue", "vhost": "v", "name": "q"} in difference["create"]
    assert {"kind": "user", "name": "eve"} in difference["create"]
    assert api.get("/vhosts/v").status == 404
    assert api.post("/definitions", out).status == 204
    assert sorted_sections(api.get("/definitions").body) == sorted_sections(out)
    assert Api(broker, "eve", "s3cr3t").get("/whoami").status == 200


def test_nothing_of_a_bad_import_is_done(api: Api) -> None:
    before = api.get("/definitions").body
    bad = {
        "vhosts": [{"name": "w"}],
        "users": [{"name": "eve", "password": "canary", "tags": "", "limits": {"x": 1}}],
        "queues": [
            {"name": "q", "vhost": "w", "durable": True, "auto_delete": False, "arguments": {}},
            {"name": "r", "vhost": "w", "durable": True, "auto_delete": False, "arguments": {"x-max-length": -1}},
        ],
    }
    refusal = api.post("/definitions", bad)
    assert (refusal.status, refusal.body["error"]) == (400, "bad_request")
    lines = refusal.body["reason"].splitlines()
    assert lines[0] == "2 problems, nothing was imported"
    assert "queues[1].arguments.x-max-length: {value_negative,-1}" in lines
    assert "canary" not in str(refusal.body)
    assert api.get("/definitions").body == before
    assert api.post("/definitions/diff", bad).body["problems"][1] == {
        "place": "queues[1].arguments.x-max-length",
        "reason": "{value_negative,-1}",
    }


def test_conflicts(api: Api) -> None:
    furnish(api)
    changed = {
        "queues": [
            {"name": "q", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 9}},
            {"name": "new", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {}},
        ]
    }
    refusal = api.post("/definitions", changed)
    assert refusal.status == 400
    assert "queues[0].arguments.x-max-length: inequivalent arg" in refusal.body["reason"]
    assert api.delete("/queues/v/new").status == 404
    assert api.post("/definitions?conflicts=keep", changed).status == 204
    assert api.delete("/queues/v/new").status == 204
    assert api.post("/definitions?conflicts=nonsense", changed).status == 400


def test_one_virtual_host_and_no_further(api: Api) -> None:
    furnish(api)
    out = api.get("/definitions/v").body
    assert set(out) == {"rabbit_version", "parameters", "policies", "queues", "exchanges", "bindings"}
    assert "vhost" not in out["queues"][0]
    api.put("/vhosts/w")
    assert api.post("/definitions/w", {**out, "users": [{"name": "x", "tags": "administrator"}]}).status == 204
    assert api.get("/users/x").status == 404
    moved = api.get("/definitions/w").body
    assert sorted_sections(moved)["queues"] == sorted_sections(out)["queues"]
    assert sorted_sections(moved)["bindings"] == sorted_sections(out)["bindings"]
    assert api.get("/policies/w/p").status == 200
    before = api.get("/definitions/v").body
    assert api.post("/definitions/w", {"queues": [{"name": "elsewhere", "vhost": "v"}]}).status == 204
    assert api.get("/definitions/v").body == before
    assert api.post("/definitions/nowhere", {}).body == {"error": "not_found", "reason": "vhost_not_found"}
    assert api.get("/definitions/nowhere").body == {"error": "bad_request", "reason": "vhost_not_found"}


def test_a_form_with_a_file(api: Api) -> None:
    def form(name: str, content: bytes) -> bytes:
        head = f'--XX\r\nContent-Disposition: form-data; name="{name}"; filename="d.json"\r\n\r\n'.encode()
        return b'--XX\r\nContent-Disposition: form-data; name="other"\r\n\r\n5\r\n' + head + content + b"\r\n--XX--\r\n"

    kind = {"Content-Type": "multipart/form-data; boundary=XX"}
    value = json.dumps({"vhosts": [{"name": "form"}]}).encode()
    assert api.post("/definitions", raw=form("file", value), headers=kind).status == 204
    assert api.get("/vhosts/form").status == 200
    for raw in (form("other2", value), b"", b"nonsense", form("file", b"{")):
        assert api.post("/definitions", raw=raw, headers=kind).status == 400
    assert api.post("/definitions", raw=b"").status == 400


def test_md5_is_refused_by_name(api: Api) -> None:
    user = {"name": "old", "password_hash": "AAAA", "hashing_algorithm": "rabbit_password_hashing_md5", "tags": ""}
    refusal = api.post("/definitions", {"users": [user]})
    assert refusal.status == 400 and "users[0].password_hash: MD5" in refusal.body["reason"]


def test_passwords_in_clear_are_hashed(api: Api, broker: Broker) -> None:
    user = {"name": "plain", "password": "s3cr3t", "tags": "management"}
    assert api.post("/definitions", {"users": [user]}).status == 204
    assert Api(broker, "plain", "s3cr3t").get("/whoami").status == 200
    assert "s3cr3t" not in str(api.get("/definitions").body)


def test_argon2_hashes_go_out_and_come_back(tmp_path: Path) -> None:
    with Broker() as broker:
        api = Api(broker)
        api.put("/users/eve", {"password": "s3cr3t", "tags": "management"})
        out = api.get("/definitions").body
        (eve,) = [user for user in out["users"] if user["name"] == "eve"]
        assert eve["hashing_algorithm"] == "leveret_password_hashing_argon2id"
    with Broker() as other:
        assert Api(other).post("/definitions", out).status == 204
        assert Api(other, "eve", "s3cr3t").get("/whoami").status == 200


def test_a_thousand_things_at_once(api: Api) -> None:
    value = {
        "vhosts": [{"name": "v"}],
        "queues": [{"name": f"q{number}", "vhost": "v", "durable": True} for number in range(1000)],
        "exchanges": [{"name": "e", "vhost": "v", "type": "topic", "durable": True}],
        "bindings": [
            {"source": "e", "vhost": "v", "destination": f"q{number}", "destination_type": "queue", "routing_key": "k"}
            for number in range(1000)
        ],
        "policies": [
            {"vhost": "v", "name": f"p{number}", "pattern": f"^q{number}$", "definition": {"max-length": number}}
            for number in range(50)
        ],
    }
    assert api.post("/definitions", value).status == 204
    assert len(api.get("/definitions/v").body["bindings"]) == 1000


# ---- RabbitMQ


def test_to_rabbitmq_and_back(api: Api, broker: Broker) -> None:
    """What we export RabbitMQ takes, and what it exports then is ours again."""
    furnish(api)
    out = api.get("/definitions").body
    with running_rabbitmq_api() as url:
        theirs = Api(url)
        assert theirs.post("/definitions", out).status == 204
        assert Api(url, "eve", "s3cr3t").get("/whoami").status == 200
        back = theirs.get("/definitions").body
    for section in ("permissions", "topic_permissions", "policies", "queues", "exchanges", "bindings", "parameters"):
        assert sorted_sections(back)[section] == sorted_sections(out)[section], section
    assert {user["name"]: user for user in back["users"]}["eve"] == {user["name"]: user for user in out["users"]}["eve"]
    api.delete("/vhosts/v")
    api.delete("/users/eve")
    assert api.post("/definitions", back).status == 204
    assert Api(broker, "eve", "s3cr3t").get("/whoami").status == 200
    again = api.get("/definitions").body
    for section in ("permissions", "topic_permissions", "policies", "queues", "exchanges", "bindings", "parameters"):
        assert sorted_sections(again)[section] == sorted_sections(out)[section], section
    for name in ("g", "internal_cluster_id", "cluster_name"):
        api.delete(f"/global-parameters/{name}")


def test_queues_of_a_type_that_is_not_here_stand_against_the_whole(api: Api) -> None:
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"}}
    refusal = api.post("/definitions", {"vhosts": [{"name": "v"}], "queues": [queue]})
    assert refusal.status == 400
    assert "queues[0].arguments.x-queue-type: \"unsupported queue type 'quorum'\"" in refusal.body["reason"]
    assert api.get("/vhosts/v").status == 404


# ---- at the start, and over a crash


def test_files_at_the_start(tmp_path: Path) -> None:
    directory = tmp_path / "definitions"
    directory.mkdir()
    (directory / "1.json").write_text(json.dumps({"vhosts": [{"name": "v"}]}))
    (directory / "2.json").write_text(
        json.dumps(
            {
                "users": [{"name": "eve", "password": "x", "tags": "administrator"}],
                "permissions": [{"user": "eve", "vhost": "v", **ALL}],
                "queues": [
                    {"name": "q", "vhost": "v", "durable": True},
                    {"name": "s", "vhost": "v", "durable": True, "arguments": {"x-queue-type": "stream"}},
                ],
            }
        )
    )
    (directory / "notes.txt").write_text("no definitions")
    settings = {"definitions.path": str(directory), "data_dir": str(tmp_path / "data")}
    with Broker(settings) as broker:
        api = Api(broker, "eve", "x")
        # Neither guest nor / when there are others.
        assert [vhost["name"] for vhost in api.get("/vhosts").body] == ["v"]
        assert [user["name"] for user in api.get("/users").body] == ["eve"]
        body = {"properties": {"delivery_mode": 2}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
        assert api.post("/exchanges/v/amq.default/publish", body).body["routed"]
        assert api.post("/exchanges/v/amq.default/publish", {**body, "routing_key": "s"}).body["routed"]
        assert api.delete("/users/eve/permissions").status == 405
        assert api.put("/users/eve", {"password": "y", "tags": "administrator"}).status == 204
    with Broker(settings) as broker:
        # The file is as it was, so what was changed since stays.
        api = Api(broker, "eve", "y")
        assert api.delete("/queues/v/q?if-empty=true").status == 400
    (directory / "1.json").write_text(json.dumps({"vhosts": [{"name": "v"}, {"name": "w"}]}))
    with Broker(settings) as broker:
        api = Api(broker, "eve", "x")
        assert [vhost["name"] for vhost in api.get("/vhosts").body] == ["v", "w"]
        assert api.delete("/queues/v/q?if-empty=true").status == 400


def test_a_bad_file_refuses_the_start(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"name": "q", "vhost": "nowhere"}]}))
    settings = {"definitions.path": str(file), "data_dir": str(tmp_path / "data")}
    with pytest.raises(StartupError, match=r"definitions.json: queues\[0\]: there is no virtual host 'nowhere'"):
        Broker(settings).start()
    with pytest.raises(StartupError, match="cannot be read"):
        Broker({**settings, "definitions.path": str(tmp_path / "none.json")}).start()
    file.write_text("{}")
    with Broker(settings) as broker:
        assert Api(broker).get("/whoami").body["name"] == "guest"


def test_an_import_that_was_answered_survives_a_kill(tmp_path: Path) -> None:
    port, management_port = free_port(), free_port()
    config = tmp_path / "leveret.toml"
    config.write_text(
        f'data_dir = "{tmp_path}/data"\n[listen]\nport = {port}\nstream_port = 0\n'
        f'management_port = {management_port}\nmetrics_port = 0\nsocket = "off"\n'
    )
    api = Api(f"http://127.0.0.1:{management_port}")
    log = tmp_path / "server.log"
    value = {
        "vhosts": [{"name": "v"}],
        "permissions": [{"user": "guest", "vhost": "v", **ALL}],
        "queues": [{"name": f"q{number}", "vhost": "v", "durable": True} for number in range(200)],
    }
    for import_it in (True, False):
        process = spawn([sys.executable, "-m", "leveret", "serve", "--config", str(config)], log)
        try:
            wait_until_serving(process, port, log)
            if import_it:
                assert api.post("/definitions", value).status == 204
            else:
                assert len(api.get("/definitions/v").body["queues"]) == 200
        finally:
            kill_process(process)
