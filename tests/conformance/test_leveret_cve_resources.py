"""Families of holes that let anybody use up memory or time, each tried on a live broker.

Names that nobody frees, as atoms were; bodies that grow when they are read; clients that take their time."""

from __future__ import annotations

import gc
import gzip
import http.client
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pika
import pytest

from leveret.management.http import connection_limits as guard
from leveret.testing import Broker
from tests.conformance.authority import Authority
from tests.conformance.raw_client import RawClient
from tests.http_client import Api

MIB = 1024 * 1024
ROUNDS_WARM, NAMES = 2, 3000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"auth.failures_max": 5}) as made:
        yield made


# ---- names that are never freed: CVE-2026-66071, -66072, -66073, -67220, -67222, -67227 to -67229, -67238, -67415


def kept_after(broker: Broker, round_of: Callable[[int], None]) -> int:
    """Octets that a round of new names leaves behind, once rings and caches are full."""

    def held() -> int:
        def measure(node: Any) -> int:
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        time.sleep(0.05)
        return broker.call(measure)

    for number in range(ROUNDS_WARM):
        round_of(number)
    tracemalloc.start()
    try:
        round_of(ROUNDS_WARM)
        before = held()
        round_of(ROUNDS_WARM + 1)
        return held() - before
    finally:
        tracemalloc.stop()


def channel_of(broker: Broker) -> Any:
    return pika.BlockingConnection(pika.URLParameters(broker.url)).channel()


def queues(broker: Broker, number: int) -> None:
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        for each in range(NAMES):
            client.send(1, "queue.declare", queue=f"queue-{number}-{each}", nowait=True)
            client.send(1, "queue.bind", queue=f"queue-{number}-{each}", exchange="amq.topic",
                        routing_key=f"key-{number}-{each}", nowait=True)  # fmt: skip
        client.call(1, "queue.declare", queue="last")
        with urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics/per-object") as answer:
            answer.read()
        Api(broker).get("/queues?columns=name")
        for each in range(NAMES):
            client.send(1, "queue.delete", queue=f"queue-{number}-{each}", nowait=True)
        client.call(1, "queue.delete", queue="last")


def consumer_tags(broker: Broker, number: int) -> None:
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "queue.declare", queue="one")
        for each in range(NAMES):
            client.call(1, "basic.consume", queue="one", consumer_tag=f"tag-{number}-{each}")
            client.call(1, "basic.cancel", consumer_tag=f"tag-{number}-{each}")


def properties(broker: Broker, number: int) -> None:
    """Reply-to, routing keys, headers' names, application names: whatever a message can say."""
    with channel_of(broker).connection as connection:
        channel = connection.channel()
        channel.queue_declare("sink", arguments={"x-max-length": 5})
        channel.queue_bind("sink", "amq.topic", "#")
        for each in range(NAMES):
            said = pika.BasicProperties(
                reply_to=f"reply-{number}-{each}", app_id=f"app-{number}-{each}", headers={f"h-{number}-{each}": each}
            )
            channel.basic_publish("amq.topic", f"key.{number}.{each}", b"", said)
        # Known routes are forgotten when something changes, or when they are too many.
        channel.queue_delete("sink")


def things_over_http(broker: Broker, number: int) -> None:
    """Virtual hosts, users, components of parameters, policies, and names of what is not there."""
    api = Api(broker)
    for each in range(NAMES // 30):
        unique = f"{number}-{each}"
        for path, body in (
            (f"/vhosts/vhost-{unique}", {}),
            (f"/users/user-{unique}", {"password_hash": "", "tags": f"tag-{unique}"}),
            (f"/parameters/component-{unique}/%2F/name-{unique}", {"value": {f"key-{unique}": 1}}),
            (f"/global-parameters/name-{unique}", {"value": 1}),
            (f"/policies/%2F/policy-{unique}", {"pattern": f"^{unique}$", "definition": {"max-length": 1}}),
        ):
            api.put(path, body)
            api.delete(path)
        api.get(f"/queues/vhost-{unique}/queue-{unique}")
        api.get(f"/nodes/node-{unique}")
        api.get(f"/queues?sort=column-{unique}&columns=column-{unique}")
        with suppress(OSError):
            urlopen(
                f"http://127.0.0.1:{broker.metrics_port}/metrics/detailed?family=f-{unique}&vhost=v-{unique}"
            ).close()


def strangers(broker: Broker, number: int) -> None:
    """Names that nobody has, from addresses that nobody knows."""

    def try_all(node: Any) -> None:
        backoff = node.broker.logins.backoff
        now = node.broker.clock.monotonic()
        for each in range(NAMES):
            backoff.arrive(f"stranger-{number}-{each}", f"10.{number}.{each // 256}.{each % 256}", now)
            backoff.failed(f"10.{number}.{each // 256}.{each % 256}", now)

    broker.call(try_all)


@pytest.mark.parametrize(
    ("round_of", "most"),
    [(queues, 600_000), (consumer_tags, 300_000), (properties, 600_000), (things_over_http, 600_000)],
)
def test_names_that_are_gone_leave_nothing(broker: Broker, round_of: Callable[[Broker, int], None], most: int) -> None:
    """Each round has thousands of names that were never there before."""
    assert kept_after(broker, lambda number: round_of(broker, number)) < most


def test_strangers_are_not_remembered_for_ever(broker: Broker) -> None:
    for number in range(12):
        strangers(broker, number)
    sizes = broker.call(
        lambda node: [len(each) for each in vars(node.broker.logins.backoff).values() if hasattr(each, "__len__")]
    )
    assert sizes and max(sizes) <= 20_000


# ---- what grows when it is read: CVE-2026-67408, -67232, -66079


def traced_peak(broker: Broker, act: Callable[[], Any]) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        given = act()
        return given, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bombs() -> Iterator[tuple[str, bytes]]:
    size = 4 * MIB
    yield "deep", b"[" * size
    yield "deep in an object", b'{"properties":' + b'{"a":' * (size // 5)
    yield "many objects", b'{"properties":[' + b"{}," * (size // 3) + b"{}]}"
    yield "many fields", b"{" + b",".join(b'"%d":0' % number for number in range(size // 10)) + b"}"
    yield "many headers", b'{"properties":{"headers":{"a":[' + b"0," * (size // 2) + b"0]}}}"
    yield "a list", b"[" + b"{}," * (size // 3) + b"{}]"


@pytest.mark.parametrize(("what", "body"), list(bombs()), ids=[what for what, _ in bombs()])
def test_a_body_does_not_grow_when_it_is_read(broker: Broker, what: str, body: bytes) -> None:
    """By somebody who may publish, and that is all he may."""
    api = Api(broker)
    api.get("/whoami")
    begun = time.perf_counter()
    reply, peak = traced_peak(broker, lambda: api.post("/exchanges/%2F/amq.default/publish", raw=body))
    assert reply.status == 400
    # It is there twice while it is put together; that it is traced makes it slower than it is.
    assert peak < 4 * len(body) and time.perf_counter() - begun < 50


def test_a_large_message_is_taken_all_the_same(broker: Broker) -> None:
    body = b'{"routing_key":"big","properties":{},"payload_encoding":"string","payload":"' + b'{},[]\\"' * MIB + b'"}'
    api = Api(broker)
    api.put("/queues/%2F/big")
    assert api.post("/exchanges/%2F/amq.default/publish", raw=body).body == {"routed": True}
    assert api.get("/queues/%2F/big").body["message_bytes"] == 6 * MIB
    both = {
        "routing_key": "q",
        "properties": {"headers": {"a": "x" * 300_000}},
        "payload": "",
        "payload_encoding": "string",
    }
    assert api.post("/exchanges/%2F/amq.default/publish", both).status == 400


def test_nothing_is_unpacked(broker: Broker) -> None:
    packed = gzip.compress(b"0" * 100 * MIB, 1)[: 10 * MIB]
    for coding in ("gzip", "deflate", "br", "gzip, identity", "x"):
        reply, peak = traced_peak(
            broker,
            lambda coding=coding: Api(broker).post("/definitions", raw=packed, headers={"Content-Encoding": coding}),
        )
        assert reply.status == 415 and peak < 8 * MIB + 2 * len(packed)


def test_a_form_is_cut_in_no_time(broker: Broker) -> None:
    body = b"--x\r\n" + b"\r\n" * (4 * MIB) + b"--x--"
    begun = time.perf_counter()
    reply = Api(broker).post("/definitions", raw=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert reply.status == 400 and time.perf_counter() - begun < 50
    file = b'--x\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n{"queues": []}\r\n--x--\r\n'
    reply = Api(broker).post("/definitions", raw=file, headers={"Content-Type": 'multipart/form-data; boundary="x"'})
    assert reply.status == 204


# ---- clients that take their time: CVE-2026-67230, slowloris


def slow_clients(port: int, count: int, octets: bytes) -> list[socket.socket]:
    made = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(count)]
    for each in made:
        each.sendall(octets)
    return made


@pytest.mark.parametrize("door", ["management", "metrics", "amqp", "stream"])
def test_whoever_takes_his_time_is_let_go_and_harms_nobody(door: str) -> None:
    with Broker({"limits.handshake_deadline_s": 1.0, "listen.stream_port": 0}) as broker:

        def hurry(node: Any) -> None:
            node.management.server.connections.header_deadline_s = 1.0
            node.metrics._server.connections.header_deadline_s = 1.0

        Api(broker).get("/whoami")
        broker.call(hurry)
        port = {
            "management": broker.management_port,
            "metrics": broker.metrics_port,
            "amqp": broker.port,
            "stream": broker.stream_port,
        }[door]
        octets = {"amqp": b"AMQP\x00", "stream": b"\x00\x00"}.get(door, b"GET /api/overview HTTP/1.1\r\nHost: x\r\nX-A")
        slow = slow_clients(port, 150, octets)
        try:
            begun = time.perf_counter()
            with RawClient(broker.host, broker.port) as client:
                client.log_in()
            assert Api(broker).get("/whoami").status == 200
            with urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics") as answer:
                assert answer.status == 200
            # One after the other they would be waited for two and a half minutes.
            assert time.perf_counter() - begun < 50
            # Another letter now and then changes nothing.
            deadline = time.monotonic() + 60
            for each in slow:
                each.settimeout(max(0.1, deadline - time.monotonic()))
                with suppress(ConnectionError):
                    each.sendall(b"x")
                    assert each.recv(100) in (b"", b"AMQP\x00\x00\x09\x01") or door != "amqp"
        finally:
            for each in slow:
                each.close()


@pytest.mark.parametrize("door", ["management", "metrics"])
def test_a_handshake_of_tls_has_its_time_as_well(tmp_path: Path, door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "TLS_HANDSHAKE_DEADLINE_S", 1.0)
    papers = Authority(tmp_path).server()
    tls = {"tls.certificate": str(papers.certificate), "tls.key": str(papers.key), f"listen.{door}_tls": True}
    with Broker(tls) as broker:
        time.sleep(0.2)
        port = broker.management_port if door == "management" else broker.metrics_port
        slow = slow_clients(port, 20, b"\x16\x03\x01\x02\x00\x01")
        begun = time.perf_counter()
        for each in slow:
            each.settimeout(10)
            with suppress(ConnectionError):
                assert each.recv(100) == b""
            each.close()
        assert time.perf_counter() - begun < 5


def test_idle_scrapers_make_room_for_others() -> None:
    with Broker() as broker:
        slow = slow_clients(broker.metrics_port, 230, b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", broker.metrics_port, timeout=10)
            connection.request("GET", "/metrics")
            assert connection.getresponse().status == 200
            connection.close()
            share = broker.call(lambda node: node.descriptors.metrics)
            assert share.used <= share.limit <= 200
            evicted: int = broker.call(lambda node: node.metrics._server.connections.evicted_total)
            assert evicted >= 30
        finally:
            for each in slow:
                each.close()
