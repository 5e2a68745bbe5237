"""Families of holes that other brokers had, each tried on a live broker.

Elsewhere: memory and time (test_leveret_cve_resources.py), tokens of every kind (tests/unit/broker/test_tokens.py,
test_token_keys.py, test_leveret_tokens.py), limits raced by fifty openers over both protocols (test_leveret_limits.py),
certificates (test_leveret_tls*.py), every route for every tag (test_leveret_http_rights.py), secrets
(test_leveret_secrets.py)."""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest

from leveret.testing import Broker
from tests.conformance.raw_client import RawClient, ServerClosed
from tests.conformance.raw_stream_client import Closed, RawStreamClient
from tests.http_client import Api, name

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"listen.stream_port": 0, "auth.failures_max": 10_000, "listen.host": "0.0.0.0"}
    with Broker(settings) as made:
        made.host = "127.0.0.1"
        api = Api(made)
        for user, tags in (("manager", "management"), ("maker", "policymaker"), ("viewer", "monitoring")):
            api.put(f"/users/{user}", {"password": "p", "tags": tags})
            api.put(f"/permissions/%2F/{user}", {"configure": "^mine", "write": "^mine", "read": "^mine"})
        api.put("/vhosts/private")
        api.put("/queues/private/secret-queue", {"durable": True})
        yield made


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


@pytest.fixture
def manager(broker: Broker) -> Api:
    return Api(broker, "manager", "p")


# ---- authorise, bound, expand: CVE-2023-46118, 2026-67408, -67226, -67219


def half_sent(broker: Broker, api: Api | None, path: str, size: int) -> tuple[int, float]:
    """The answer to a request whose body never comes."""
    connection = http.client.HTTPConnection(broker.host, broker.management_port, timeout=10)
    begun = time.perf_counter()
    connection.putrequest("POST", f"/api{path}")
    for header, value in (api.headers if api is not None else {}).items():
        connection.putheader(header, value)
    connection.putheader("Content-Length", str(size))
    connection.endheaders(b"{")
    answer = connection.getresponse()
    connection.close()
    return answer.status, time.perf_counter() - begun


def test_who_may_not_is_told_before_his_body_is_read(broker: Broker, manager: Api) -> None:
    for path in ("/definitions", "/definitions/%2F", "/users/bulk-delete"):
        assert half_sent(broker, None, path, 19 * MIB)[0] == 401
        status, took_s = half_sent(broker, manager, path, 19 * MIB)
        assert status == 401 and took_s < 5


def test_what_is_too_large_is_refused_as_declared(broker: Broker, api: Api) -> None:
    assert half_sent(broker, api, "/definitions", 21 * MIB)[0] == 413
    assert half_sent(broker, api, "/users/bulk-delete", MIB)[0] == 413


def test_the_weight_of_a_binding_is_bounded(api: Api) -> None:
    api.put("/exchanges/%2F/ring", {"type": "x-consistent-hash"})
    api.put("/queues/%2F/ringed", {})
    for weight in ("100000000", "1001", "-5", "9" * 30):
        assert api.post("/bindings/%2F/e/ring/q/ringed", {"routing_key": weight}).status == 400
    definitions = {
        "bindings": [
            {"source": "ring", "vhost": "/", "destination": "ringed", "destination_type": "queue",
             "routing_key": "100000000", "arguments": {}}
        ]
    }  # fmt: skip
    assert api.post("/definitions", definitions).status == 400
    assert len(api.get("/bindings/%2F/e/ring/q/ringed").body) == 0


# ---- CPU: CVE-2026-66074, -67413, -44838, -67407


NESTED = "^.*.*" + "(?=.*" * 20 + ")" * 20


@pytest.mark.parametrize("pattern", [NESTED, r"(a)*\1x", "(?<!a)x", "(a++)+x", "(.{0,255}a){3}x"])
def test_patterns_beyond_linear_time_are_refused_at_every_door(api: Api, pattern: str) -> None:
    api.put(f"/queues/%2F/{'a' * 200}", {})
    policy = {"pattern": pattern, "definition": {"max-length": 5}}
    permission = {"configure": pattern, "write": "", "read": ""}
    imported = {"policies": [{"vhost": "/", "name": "p", **policy}]}
    assert api.get(f"/queues?name={quote(pattern, safe='')}&use_regex=true").status == 400
    assert api.put("/policies/%2F/p", policy).status == 400
    assert api.put("/operator-policies/%2F/p", policy).status == 400
    assert api.put("/permissions/%2F/manager", permission).status == 400
    assert api.put("/topic-permissions/%2F/manager", {"exchange": "t", "write": pattern, "read": ""}).status == 400
    refused = api.post("/definitions", imported)
    assert refused.status == 400 and "policies[0].pattern" in str(refused.body)
    imported = {"permissions": [{"vhost": "/", "user": "manager", **permission}]}
    refused = api.post("/definitions", imported)
    assert refused.status == 400 and "permissions[0]" in str(refused.body)
    replay = {"mode": "original_queue", "filter": {"queue_pattern": pattern}}
    assert api.post(f"/queues/%2F/{'a' * 200}/reprocess", replay).status == 400


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)+$", "(a|aa)*x", ".*.*.*.*.*x", "(a{1,9})*x", "(?:a?){30}x"])
def test_patterns_that_other_matchers_never_end_with_are_taken(api: Api, pattern: str) -> None:
    """The deadline is hours away from what they take elsewhere, and far from what they take here."""
    queue = f"/queues/%2F/{'a' * 200}"
    api.put(queue, {})
    begun = time.perf_counter()
    assert api.get(f"/queues?name={quote(pattern, safe='')}&use_regex=true").status == 200
    policy = {"pattern": pattern, "definition": {"max-length": 5}}
    assert api.put("/policies/%2F/p", policy).status in (201, 204)
    assert api.delete("/policies/%2F/p").status == 204
    assert time.perf_counter() - begun < 50


def test_a_name_in_a_pattern_is_only_a_name(broker: Broker, api: Api) -> None:
    """A user called .* gets no more than his own."""
    user = name(".*")
    api.put(f"/users/{user}", {"password": "p", "tags": ""})
    api.put(f"/permissions/%2F/{user}", {"configure": ".*", "write": ".*", "read": ".*"})
    api.put(f"/topic-permissions/%2F/{user}", {"exchange": "amq.topic", "write": "^{username}\\.", "read": ""})
    credentials = pika.PlainCredentials(".*", "p")
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, "/", credentials)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", ".*.mine", b"")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="access to topic"):
            channel.basic_publish("amq.topic", "other.mine", b"")


# ---- side doors: CVE-2024-51988, 2026-67218, -67233, -66069, -66075, -66076, -66078


def test_payloads_take_the_right_to_read(manager: Api, api: Api, broker: Broker) -> None:
    """Seeing that a queue exists is not seeing what is in it."""
    api.put("/queues/%2F/theirs", {})
    message = {"routing_key": "theirs", "properties": {}, "payload": "private", "payload_encoding": "string"}
    api.post("/exchanges/%2F/amq.default/publish", message)
    everything = {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto"}
    refused = [
        manager.post("/queues/%2F/theirs/get", everything),
        manager.get("/queues/%2F/theirs/get"),
        manager.get("/queues/%2F/theirs/peek"),
        manager.post("/queues/%2F/theirs/ack", {"delivery_tag": 0, "multiple": True}),
        manager.get("/tap?queue=theirs&life_s=1"),
        manager.get("/tap?exchange=amq.topic&life_s=1"),
        manager.get("/tap?exchange=amq.default&life_s=1"),
        manager.delete("/queues/%2F/theirs/contents"),
        manager.delete("/queues/%2F/theirs"),
        manager.put("/queues/%2F/theirs/pause"),
        manager.post("/queues/%2F/theirs/reprocess", {"mode": "target", "exchange": "mine"}),
    ]
    assert [reply.status for reply in refused] == [401] * len(refused)
    assert manager.post("/exchanges/%2F/amq.topic/publish", message).status == 400
    assert manager.get("/queues/%2F/theirs").body["messages_ready"] == 1
    assert b"private" not in (manager.get("/queues/%2F/theirs", decoded=False).body or b"")


def test_who_holds_messages_is_shown_without_their_keys(broker: Broker, api: Api, manager: Api) -> None:
    api.put("/queues/%2F/held", {})
    api.post(
        "/exchanges/%2F/amq.default/publish",
        {"routing_key": "held", "properties": {}, "payload": "", "payload_encoding": "string"},
    )
    assert len(api.get("/queues/%2F/held/get").body) == 1
    assert api.get("/queues/%2F/held/unacked").body[0]["routing_key"] == "held"
    assert "routing_key" not in manager.get("/queues/%2F/held/unacked").body[0]


def test_a_virtual_host_that_one_may_not_enter_is_nowhere(broker: Broker, api: Api, manager: Api) -> None:
    lists = "vhosts queues exchanges bindings policies tasks dead-letters consumers connections channels vhost-limits "
    for path in f"{lists} overview events?once=true stream/connections".split():
        reply = manager.get(f"/{path}", decoded=False)
        assert reply.status == 200 and b"private" not in reply.body and b"secret-queue" not in reply.body, path
    for path in ("/queues/private", "/queues/private/secret-queue", "/dead-letters/private", "/exchanges/private"):
        assert manager.get(path).status == 401, path
    simulated = {"vhost": "private", "exchange": "amq.default", "routing_key": "secret-queue"}
    assert manager.post("/simulate-route", simulated).status == 401
    assert manager.get("/tap?vhost=private&queue=secret-queue").status == 401


def test_many_at_once_are_checked_as_each_alone(broker: Broker, api: Api, manager: Api) -> None:
    users = {"users": ["viewer"]}
    assert manager.post("/users/bulk-delete", users).status == 401
    assert Api(broker, "maker", "p").post("/users/bulk-delete", users).status == 401
    assert api.post("/users/bulk-delete", {"users": ["viewer", "nobody-of-this-name"]}).status == 400
    assert api.get("/users/viewer").status == 200
    for user in ("manager", "maker", "viewer"):
        for path in ("/definitions", "/definitions/%2F", "/definitions/diff", "/all-configuration"):
            assert Api(broker, user, "p").post(path, {"queues": []}).status == 401, (user, path)


def test_a_token_of_rights_that_was_taken_back_counts_no_more(broker: Broker, api: Api) -> None:
    """CVE-2026-67420: what goes on while rights change ends with them."""
    api.put("/users/leaver", {"password": "p", "tags": "management"})
    api.put("/permissions/%2F/leaver", {"configure": "", "write": "", "read": ".*"})
    leaver = Api(broker, "leaver", "p")
    with ThreadPoolExecutor() as threads:
        tap = threads.submit(leaver.get, "/tap?exchange=amq.topic&life_s=30")
        events = threads.submit(leaver.get, "/events")
        while broker.call(lambda node: len(node.management.services.taps)) < 1:
            time.sleep(0.01)
        api.put("/users/leaver", {"password": "p", "tags": ""})
        assert tap.result(10).status == 200 and events.result(20).status == 200
    assert leaver.get("/whoami").status == 401 or leaver.get("/queues").status == 401


def test_a_tap_shows_only_keys_that_could_be_bound(broker: Broker, api: Api) -> None:
    api.put("/users/topical", {"password": "p", "tags": "management"})
    api.put("/permissions/%2F/topical", {"configure": "", "write": "", "read": "^amq\\."})
    api.put("/topic-permissions/%2F/topical", {"exchange": "amq.topic", "write": "", "read": "^public\\."})
    topical = Api(broker, "topical", "p")
    api.put("/queues/%2F/theirs-too", {})
    for exchange, keys in (("amq.topic", ("private.one", "public.two")), ("amq.default", ("theirs-too",))):
        with ThreadPoolExecutor() as threads:
            before = broker.call(lambda node: node.management.services.taps.opened_total)
            tap = threads.submit(topical.get, f"/tap?exchange={exchange}&life_s=1&rate=1000")
            while broker.call(lambda node: node.management.services.taps.opened_total) == before:
                time.sleep(0.01)
            time.sleep(0.2)
            for key in keys:
                message = {"routing_key": key, "properties": {}, "payload": key, "payload_encoding": "string"}
                api.post(f"/exchanges/%2F/{exchange}/publish", message)
            shown = tap.result(10).body
        assert (b"public.two" in shown) == (exchange == "amq.topic")
        assert b"private.one" not in shown and b"theirs-too" not in shown


def test_events_go_on_where_a_client_left_off(api: Api) -> None:
    """By the header that browsers send, and no further back."""
    api.put("/queues/%2F/mine-seen", {})
    first = api.get("/events?once=true").body
    last = max(int(line[3:]) for line in first.splitlines() if line.startswith(b"id:"))
    api.put("/queues/%2F/mine-new", {})
    rest = api.get("/events?once=true", headers={"Last-Event-ID": str(last)}).body
    assert b"mine-new" in rest and b"mine-seen" not in rest


# ---- who is it: CVE-2026-57216, -67411, -67409


def test_the_loopback_rule_looks_at_the_socket(broker: Broker) -> None:
    """No header says where a client is, and none makes it worse."""
    found = [each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    outer = [address for address in found if not address.startswith("127.")]
    claims = ({}, {"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, {"X-Real-IP": "127.0.0.1"})
    for address in outer:
        for headers in claims:
            api = Api(f"http://{address}:{broker.management_port}")
            assert api.get("/whoami", headers=dict(headers)).status == 401
        assert Api(f"http://{address}:{broker.management_port}", "viewer", "p").get("/whoami").status == 200
        with RawClient(address, broker.port) as client:
            # As a proxy would begin, from an address that nobody has allowed to.
            client.send_bytes(b"PROXY TCP4 127.0.0.1 127.0.0.1 5 5672\r\n")
            with pytest.raises((ServerClosed, AssertionError)):
                client.start()
    for claimed in ("8.8.8.8", "127.0.0.1, 8.8.8.8"):
        assert Api(broker).get("/whoami", headers={"X-Forwarded-For": claimed}).status == 200


def test_whether_a_user_exists_cannot_be_told_from_the_time(broker: Broker) -> None:
    def seconds(user: str) -> float:
        begun = time.perf_counter()
        assert Api(broker, user, "wrong").get("/whoami").status == 401
        return time.perf_counter() - begun

    seconds("guest"), seconds("no-such-user")
    # By turns, and the best of each, so that what else the machine does meets both alike.
    pairs = [(seconds("viewer"), seconds(f"nobody-{number}")) for number in range(12)]
    known, unknown = (min(times) for times in zip(*pairs, strict=True))
    assert 0.5 < known / unknown < 2.0


# ---- the web: CVE-2026-66070, 2014-9650, -67224, -57211


def test_other_sites_get_no_word(api: Api) -> None:
    for origin in ("https://evil.example", "null", "*"):
        reply = api.get("/whoami", headers={"Origin": origin})
        assert not [header for header in reply.headers if header.startswith("access-control-")]
        for method in ("POST", "PUT", "DELETE"):
            assert api.ask(method, "/queues/%2F/x", {}, headers={"Origin": origin}).status in (403, 405)
    options = api.ask("OPTIONS", "/queues", headers={"Origin": "x", "Access-Control-Request-Method": "PUT"})
    assert not [header for header in options.headers if header.startswith("access-control-")]


EVIL_NAMES = ["../../evil", "..", "/etc/passwd", "a\x00b", "%2e%2e%2fevil", "..\\evil", "a\r\nX-Evil: 1", "C:evil", "~"]


def test_names_are_never_names_of_files(tmp_path: Path) -> None:
    """CVE-2026-67224: whatever things are called, files are called as the broker likes."""
    data = tmp_path / "data" / "inner"
    with Broker({"data_dir": str(data)}) as broker:
        api = Api(broker)
        for evil in EVIL_NAMES:
            api.put(f"/vhosts/{name(evil)}", {})
            api.put(f"/permissions/{name(evil)}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
            for vhost in ("/", evil):
                stream = {"durable": True, "arguments": {"x-queue-type": "stream"}}
                api.put(f"/queues/{name(vhost)}/{name(evil)}", {"durable": True})
                api.put(f"/queues/{name(vhost)}/{name('s' + evil)}", stream)
            message = {"routing_key": "s" + evil, "properties": {}, "payload": "x", "payload_encoding": "string"}
            api.post("/exchanges/%2F/amq.default/publish", message)
            api.put(f"/users/{name(evil)}", {"password": "p", "tags": evil})
            reply = api.get(f"/definitions?download={name(evil)}", decoded=False)
            assert reply.headers.get("content-disposition", "") in ("", "attachment; filename=definitions.json")
        assert len(api.get("/queues").body) > len(EVIL_NAMES)
        assert [path for path in tmp_path.rglob("*") if "evil" in path.name] == []
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
        assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["inner"]
        for path in data.rglob("*"):
            assert re.fullmatch(r"[a-z0-9._-]+", path.name), path


def test_names_end_no_header(api: Api) -> None:
    api.put("/queues/%2F/plain", {})
    evil = "k\r\nSet-Cookie: a=b"
    reply = api.post("/bindings/%2F/e/amq.direct/q/plain", {"routing_key": evil, "arguments": {"a\r\nb": "c\r\nd"}})
    assert reply.status == 201 and "set-cookie" not in reply.headers and "\n" not in reply.headers["location"]
    for path in ("/queues/%2F/a%0d%0aSet-Cookie:%20a=b", "/%0d%0aSet-Cookie:%20a=b", "/queues?columns=%0d%0aA:a"):
        reply = api.get(path)
        assert reply.status < 500 and "set-cookie" not in reply.headers


# ---- an exception in one connection never reaches another: Qpid 2017-15699, 2018-8030


def test_a_mistake_in_one_connection_is_that_connections_end(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    from leveret.broker.topology import Topology

    whole = Topology.declare_queue

    def fail(self: Any, who: Any, queue: str, *given: Any) -> Any:
        if queue == "mine-broken":
            raise RuntimeError("a mistake of ours")
        return whole(self, who, queue, *given)

    monkeypatch.setattr(Topology, "declare_queue", fail)
    with RawClient(broker.host, broker.port) as neighbour, RawStreamClient(broker.host, broker.stream_port) as stream:
        neighbour.log_in().open_channel(1)
        stream.log_in()
        with RawClient(broker.host, broker.port) as client:
            client.log_in().open_channel(1)
            client.send(1, "queue.declare", queue="mine-broken")
            with suppress(ServerClosed):
                assert client.refusal().code == 541
        assert Api(broker).put("/queues/%2F/mine-broken", {}).status == 500
        assert neighbour.call(1, "queue.declare", queue="mine-whole").name == "queue.declare-ok"
        stream.send_octets(b"\x7f\xff\xff\xff\x00\x01")
        with pytest.raises(Closed):
            # What it says before it hangs up.
            [stream.receive_frame() for _ in range(5)]
        assert neighbour.call(1, "queue.declare", queue="mine-whole").name == "queue.declare-ok"
    assert Api(broker).get("/whoami").status == 200
