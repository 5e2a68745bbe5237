"""The least size of a stream's segments: by arguments and policies, and what the API shows of it."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from leveret.testing import Broker

MIN = 1024 * 1024
ARGUMENT = "x-stream-max-segment-size-bytes"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"streams.segment_bytes_min": MIN}) as running:
        yield running


def call(broker: Broker, method: str, path: str, body: Any = None) -> Any:
    port = broker.call(lambda node: node.management_port)
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api{path}", method=method)
    request.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, None if body is None else json.dumps(body).encode(), timeout=10) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def declare(broker: Broker, name: str, **arguments: Any) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": "stream", **arguments})
    connection.close()


def test_an_argument(broker: Broker) -> None:
    """Taken as it is given, so that whoever declares it again finds what they said; and not used."""
    for _ in range(2):
        declare(broker, "one", **{ARGUMENT: 1})
    found = call(broker, "GET", "/queues/%2F/one")
    assert (found["arguments"][ARGUMENT], found["segment_bytes"]) == (1, MIN)
    declare(broker, "large", **{ARGUMENT: 5 * MIN})
    assert call(broker, "GET", "/queues/%2F/large")["segment_bytes"] == 5 * MIN


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_a_policy(broker: Broker, kind: str) -> None:
    declare(broker, f"by-{kind}")
    body = {"pattern": f"^by-{kind}$", "definition": {"stream-max-segment-size-bytes": 2}, "apply-to": "streams"}
    try:
        call(broker, "PUT", f"/{kind}/%2F/tiny", body)
    except urllib.error.HTTPError as error:
        # Of an operator it is none that may be set.
        assert (kind, error.code) == ("operator-policies", 400)
        return
    assert call(broker, "GET", f"/queues/%2F/by-{kind}")["segment_bytes"] == MIN
