"""Health checks over HTTP, when all is well and when it is not; and what tools of RabbitMQ ask for besides."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import trustme

from leveret.testing import Broker
from tests.http_client import Api, name

CHECKS = "/health/checks"
OK = {"status": "ok"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"limits.connections_max": 2, "node_name": "hare@field"}) as running:
        yield running


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


def test_alarms_fail_their_checks(broker: Broker, api: Api) -> None:
    for check in ("alarms", "local-alarms"):
        assert api.get(f"{CHECKS}/{check}").body == OK
    assert api.get("/healthchecks/node").body == OK
    broker.raise_alarm("disk")
    try:
        for check, where in (("alarms", "in the cluster"), ("local-alarms", "on the node")):
            reply = api.get(f"{CHECKS}/{check}")
            assert reply.status == 503
            assert reply.body["status"] == "failed"
            assert reply.body["reason"] == f"There are alarms in effect {where}"
            assert reply.body["alarms"] == [{"node": "hare@field", "resource": "disk", "reason": "low on disk"}]
        node = api.get("/nodes/hare%40field").body
        assert (node["disk_free_alarm"], node["mem_alarm"]) == (True, False)
        assert api.get("/healthchecks/node").body["status"] == "failed"
        aliveness = api.get("/aliveness-test/%2F")
        assert (aliveness.status, aliveness.body["status"]) == (503, "failed")
        # Clients are let in all the same: consumers are what helps.
        assert api.get(f"{CHECKS}/ready-to-serve-clients").body == OK
    finally:
        broker.clear_alarm("disk")
    assert api.get(f"{CHECKS}/alarms").body == OK


def test_some_checks_ask_for_no_login(broker: Broker) -> None:
    stranger = Api(broker, None)
    for path in ("//health/live", "//health/ready", f"{CHECKS}/is-in-service", f"{CHECKS}/ready-to-serve-clients"):
        reply = stranger.get(path)
        assert (reply.status, reply.body) == (200, OK), path
    for path in (f"{CHECKS}/alarms", f"{CHECKS}/virtual-hosts", "/aliveness-test/%2F", "/healthchecks/node"):
        assert stranger.get(path).status == 401, path


def test_a_full_node_is_not_ready(broker: Broker, api: Api) -> None:
    path = f"{CHECKS}/below-node-connection-limit"
    assert api.get(path).body == {"status": "ok", "limit": 2, "connections": 0}
    address = pika.URLParameters(broker.url)
    with pika.BlockingConnection(address), pika.BlockingConnection(address):
        reply = api.get(path)
        assert reply.status == 503
        assert reply.body == {
            "status": "failed",
            "reason": "node connection limit is reached",
            "limit": 2,
            "connections": 2,
        }
        assert api.get(f"{CHECKS}/ready-to-serve-clients").status == api.get("//health/ready").status == 503
        assert api.get("//health/live").body == OK


def test_ports_and_protocols(broker: Broker, api: Api) -> None:
    for port in (broker.port, broker.management_port, broker.stream_port):
        assert api.get(f"{CHECKS}/port-listener/{port}").body == {"status": "ok", "port": port}
    for protocol in ("amqp", "AMQP091", "amqp0.9.1", "stream", "http"):
        assert api.get(f"{CHECKS}/protocol-listener/{protocol}").body == {"status": "ok", "protocol": protocol}
    for protocol in ("amqps", "https", "mqtt"):
        assert api.get(f"{CHECKS}/protocol-listener/{protocol}").status == 503
    for bad in ("x", "-1", "1" * 30, "%C2%B2"):
        assert api.get(f"{CHECKS}/port-listener/{bad}").status == 400


@pytest.mark.parametrize("bad", ["0/days", "x/days", "1/fortnights", "1001/days", f"{'9' * 5000}/days", "1.5/days"])
def test_spans_that_are_none(api: Api, bad: str) -> None:
    assert api.get(f"{CHECKS}/certificate-expiration/{bad}").status == 400


def test_a_certificate_that_ends_soon_fails_its_check(tmp_path: Path) -> None:
    authority = trustme.CA()
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=10)
    certificate = authority.issue_cert("localhost", not_after=ends)
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    with (tmp_path / "chain.pem").open("wb") as file:
        file.writelines(blob.bytes() for blob in certificate.cert_chain_pems)
    settings: dict[str, object] = {
        "listen.tls_port": 0,
        "tls.certificate": str(tmp_path / "chain.pem"),
        "tls.key": str(tmp_path / "key.pem"),
    }
    with Broker(settings) as broker:
        api = Api(broker)
        assert api.get(f"{CHECKS}/certificate-expiration/1/weeks").body == OK
        reply = api.get(f"{CHECKS}/certificate-expiration/2/weeks")
        assert reply.status == 503
        assert reply.body["reason"] == "Certificates expiring"
        (expiring,) = reply.body["expired"]
        assert abs(expiring["expires_at"] - ends.timestamp()) < 2


def test_aliveness_really_uses_a_queue(broker: Broker, api: Api) -> None:
    for _ in range(3):
        assert api.get("/aliveness-test/%2F").body == OK
    queue = api.get("/queues/%2F/aliveness-test").body
    assert queue["messages"] == 0
    assert queue["message_stats"]["publish"] >= 3
    api.put("/users/feeble", {"password": "feeble", "tags": "monitoring"})
    feeble = Api(broker, "feeble", "feeble")
    assert feeble.get("/aliveness-test/%2F").status == 401
    for rights in (("^$", ".*", ".*"), (".*", "^$", ".*"), (".*", ".*", "^$")):
        permission = dict(zip(("configure", "write", "read"), rights, strict=True))
        api.put("/permissions/%2F/feeble", permission)
        assert feeble.get("/aliveness-test/%2F").status == 401, permission
    api.delete("/users/feeble")


def test_names_of_nodes(api: Api) -> None:
    assert api.get(f"/nodes/{name('hare@field')}").body["name"] == "hare@field"
    assert api.get(f"/healthchecks/node/{name('hare@field')}").body == OK
    for path in ("/nodes/other%40field", "/nodes/x/memory", "/healthchecks/node/x", "/auth/attempts/x"):
        assert api.get(path).status == 404


def test_memory_of_a_node(api: Api) -> None:
    memory = api.get("/nodes/hare%40field/memory").body["memory"]
    assert memory["total"]["rss"] > 10_000_000
    parts = api.get("/nodes/hare%40field/memory/relative").body["memory"]
    assert parts.pop("total") == 100
    assert all(0 <= part <= 110 for part in parts.values())
    node = api.get("/nodes/hare%40field?memory=true").body
    assert node["memory"].keys() == memory.keys()
    assert node["mem_used"] > 10_000_000
    assert node["fd_used"] > 3
    assert node["disk_free"] > 0


def test_the_name_of_the_cluster(api: Api) -> None:
    assert api.get("/cluster-name").body == {"name": "leveret"}
    assert api.put("/cluster-name", {"name": "meadow"}).status == 204
    assert api.get("/cluster-name").body == {"name": "meadow"}
    assert api.get("/overview").body["cluster_name"] == "meadow"
    for bad in ({}, [], {"name": ""}, {"name": 5}, {"name": "x" * 256}):
        assert api.put("/cluster-name", bad).status == 400


def test_what_tools_of_rabbitmq_ask_for(api: Api) -> None:
    flags = api.get("/feature-flags").body
    assert {flag["state"] for flag in flags} == {"enabled"}
    assert api.put(f"/feature-flags/{flags[0]['name']}/enable").status == 204
    assert api.put("/feature-flags/nonsense/enable").status == 400
    assert api.get("/deprecated-features").body == api.get("/deprecated-features/used").body == []
    assert api.post("/rebalance/queues").status == 204
    assert api.get("/extensions").body == []
    assert isinstance(api.get("/version").body, str)


def test_logins_are_counted_and_set_back(broker: Broker, api: Api) -> None:
    path = "/auth/attempts/hare%40field"

    def of_http() -> dict[str, int]:
        (found,) = [each for each in api.get(path).body if each["protocol"] == "http"]
        return dict(found)

    assert Api(broker, "guest", "wrong").get("/whoami").status == 401
    before = of_http()
    assert before["auth_attempts_failed"] >= 1
    assert before["auth_attempts"] == before["auth_attempts_failed"] + before["auth_attempts_succeeded"]
    assert api.delete(path).status == 204
    after = of_http()
    assert after["auth_attempts_failed"] == 0
    assert after["auth_attempts_succeeded"] < before["auth_attempts_succeeded"]
    assert api.get(f"{path}/source").body == []
