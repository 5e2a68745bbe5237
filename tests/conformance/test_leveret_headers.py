"""Headers exchanges as specified: arguments of bindings that begin with x- count, or RabbitMQ's way is asked for."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.own_broker import connected, running
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain, refusal_of, unique_name

Table = dict[str, Value]


def bound(client: RawClient, topology: Topology, exchange: str, arguments: Table) -> str:
    queue = topology.queue(client)
    client.call(1, "queue.bind", queue=queue, exchange=exchange, arguments=arguments)
    return queue


@pytest.mark.parametrize(
    ("order_value", "large"), [("500", False), ("1500", True)], ids=["as in the document", "a large order"]
)
def test_the_example_of_the_specification(client: RawClient, topology: Topology, order_value: str, large: bool) -> None:
    exchange = topology.exchange(client, "headers")
    premium_orders = bound(client, topology, exchange, {"x-customer-tier": "premium", "x-match": "all"})
    large_orders = bound(client, topology, exchange, {"x-order-value": ">1000", "x-match": "any"})
    headers: Table = {"x-customer-tier": "premium", "x-order-value": order_value}
    client.publish(1, exchange, "", b"order", {"headers": headers})
    client.publish(1, exchange, "", b"another tier", {"headers": {"x-customer-tier": "basic"}})
    client.publish(1, exchange, "", b"no headers", {})
    assert drain(client, premium_orders) == [b"order"]
    assert drain(client, large_orders) == ([b"order"] if large else [])


def test_rabbitmqs_way_by_an_argument(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "headers", arguments={"x-headers-ignore-x": True})
    nothing_asked = bound(client, topology, exchange, {"x-customer-tier": "premium", "x-match": "all"})
    nothing_taken = bound(client, topology, exchange, {"x-order-value": ">1000", "x-match": "any"})
    client.publish(1, exchange, "", b"order", {"headers": {"x-order-value": 1500}})
    assert drain(client, nothing_asked) == [b"order"]
    assert drain(client, nothing_taken) == []


def test_a_client_that_does_not_know_the_argument_declares_the_exchange_again(
    client: RawClient, topology: Topology
) -> None:
    name = topology.exchange(client, "headers", arguments={"x-headers-ignore-x": True})
    client.call(1, "exchange.declare", exchange=name, type="headers")
    client.call(1, "exchange.declare", exchange=name, type="headers", arguments={"x-headers-ignore-x": True})
    other: Table = {"x-headers-ignore-x": False}
    assert (
        "inequivalent arg 'x-headers-ignore-x'"
        in refusal_of(client, "exchange.declare", exchange=name, type="headers", arguments=other).text
    )


@pytest.mark.parametrize("kind", ["headers", "x-delayed-message"])
def test_the_argument_is_true_or_false(client: RawClient, kind: str) -> None:
    name = unique_name("exchange")
    arguments: Table = {"x-headers-ignore-x": "yes", "x-delayed-type": "headers"}
    refusal = refusal_of(client, "exchange.declare", exchange=name, type=kind, arguments=arguments)
    reason = f"invalid arg 'x-headers-ignore-x' for exchange '{name}' in vhost '/': <<\"yes\">> is not true or false"
    assert refusal == Refusal("channel", 406, f"PRECONDITION_FAILED - {reason}", 40, 10)


def routed(broker: Any, exchange: str) -> list[bytes]:
    """What a queue gets that asks for an x- header, of a message without and one with it."""
    with connected(broker) as client:
        queue = client.call(1, "queue.declare", queue="", exclusive=True)["queue"]
        client.call(1, "queue.bind", queue=queue, exchange=exchange, arguments={"x-tier": "gold", "x-match": "all"})
        client.publish(1, exchange, "", b"without", {})
        client.publish(1, exchange, "", b"with", {"headers": {"x-tier": "gold"}})
        return drain(client, queue)


def test_rabbitmqs_way_by_the_setting(tmp_path: Path) -> None:
    with running(tmp_path, routing__headers_ignore_x=True) as broker:
        with connected(broker) as client:
            client.call(1, "exchange.declare", exchange="plain", type="headers", durable=True)
            arguments: Table = {"x-headers-ignore-x": False}
            client.call(1, "exchange.declare", exchange="own", type="headers", durable=True, arguments=arguments)
        for exchange in ("amq.headers", "amq.match", "plain"):
            assert routed(broker, exchange) == [b"without", b"with"]
        assert routed(broker, "own") == [b"with"], "the exchange's argument counts first"
    with running(tmp_path) as broker:
        for exchange in ("amq.headers", "plain", "own"):
            assert routed(broker, exchange) == [b"with"], "the setting is gone, and no exchange has kept it"
