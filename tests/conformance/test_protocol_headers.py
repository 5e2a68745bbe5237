"""Headers exchanges: all or any of the binding's arguments, by value and by type."""

import pytest

from tests.conformance.amqp_codec import Typed, Value
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain, refusal_of

Table = dict[str, Value]


# RabbitMQ does not know the argument, and does what it asks for.
IGNORE_X: Table = {"x-headers-ignore-x": True}


def matches(client: RawClient, topology: Topology, arguments: Table, headers: Table | None) -> bool:
    exchange = topology.exchange(client, "headers", arguments=IGNORE_X)
    queue = topology.queue(client)
    client.call(1, "queue.bind", queue=queue, exchange=exchange, arguments=arguments)
    client.publish(1, exchange, "any key", b"found", {} if headers is None else {"headers": headers})
    return drain(client, queue) == [b"found"]


ALL: Table = {"x-match": "all", "a": 1, "b": "two"}
ANY: Table = {"x-match": "any", "a": 1, "b": "two"}


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        (ALL, {"a": 1, "b": "two"}, True),
        (ALL, {"a": 1, "b": "two", "c": None}, True),
        (ALL, {"a": 1}, False),
        (ALL, {"a": 1, "b": "three"}, False),
        (ALL, {}, False),
        (ALL, None, False),
        (ANY, {"a": 1}, True),
        (ANY, {"b": "two", "a": 7}, True),
        (ANY, {"a": 7, "b": "x"}, False),
        (ANY, {"c": 1}, False),
        (ANY, None, False),
        ({"a": 1, "b": "two"}, {"a": 1}, False),
        ({"a": 1, "b": "two"}, {"b": "two", "a": 1}, True),
    ],
)
def test_all_and_any(
    client: RawClient, topology: Topology, arguments: Table, headers: Table | None, expected: bool
) -> None:
    assert matches(client, topology, arguments, headers) is expected


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-match": "all"}, {"a": 1}, True),
        ({"x-match": "all"}, None, True),
        ({}, {"a": 1}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "any"}, None, False),
    ],
)
def test_nothing_to_match(
    client: RawClient, topology: Topology, arguments: Table, headers: Table | None, expected: bool
) -> None:
    assert matches(client, topology, arguments, headers) is expected


@pytest.mark.parametrize("mode", ["all", "any"])
@pytest.mark.parametrize(
    ("headers", "expected"), [({"a": 1}, True), ({"a": None}, True), ({"a": {"deep": [1]}}, True), ({"b": 1}, False)]
)
def test_a_void_argument_asks_only_for_presence(
    client: RawClient, topology: Topology, mode: str, headers: Table, expected: bool
) -> None:
    assert matches(client, topology, {"x-match": mode, "a": None}, headers) is expected


@pytest.mark.parametrize(
    ("mode", "headers", "expected"),
    [
        ("all", {"a": 1}, True),
        ("all", {"a": 1, "x-b": 2}, True),
        ("any", {"x-b": 1}, False),
        ("any", {"a": 1}, True),
        ("all-with-x", {"a": 1}, False),
        ("all-with-x", {"a": 1, "x-b": 1}, True),
        ("all-with-x", {"a": 1, "x-b": 2}, False),
        ("any-with-x", {"x-b": 1}, True),
        ("any-with-x", {"x-b": 2}, False),
    ],
)
def test_arguments_that_begin_with_x(
    client: RawClient, topology: Topology, mode: str, headers: Table, expected: bool
) -> None:
    assert matches(client, topology, {"x-match": mode, "a": 1, "x-b": 1}, headers) is expected


@pytest.mark.parametrize(
    ("wanted", "sent", "expected"),
    [
        (1, Typed(b"l", 1), True),
        (1, Typed(b"b", 1), True),
        (1, 1.0, True),
        (1, 1.5, False),
        (1, "1", False),
        (1, True, False),
        (True, True, True),
        (True, False, False),
        ("a", "a", True),
        ("a", b"a", True),
        ("a", "A", False),
        ("", "", True),
        (1.5, 1.5, True),
        (1.5, Typed(b"f", 1.5), True),
        ([1, "a"], [1, "a"], True),
        ([1, "a"], ["a", 1], False),
        ({"k": 1}, {"k": 1}, True),
        ({"k": 1}, {"k": 2}, False),
        (Typed(b"T", 5), Typed(b"T", 5), True),
    ],
)
def test_values_and_types(client: RawClient, topology: Topology, wanted: Value, sent: Value, expected: bool) -> None:
    assert matches(client, topology, {"x-match": "all", "a": wanted}, {"a": sent}) is expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("none", 'Invalid x-match field value <<"none">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
    ],
)
def test_a_bad_mode(client: RawClient, topology: Topology, value: Value, text: str) -> None:
    exchange = topology.exchange(client, "headers")
    queue = topology.queue(client)
    refusal = refusal_of(client, "queue.bind", queue=queue, exchange=exchange, arguments={"x-match": value})
    assert refusal == Refusal("channel", 406, f"PRECONDITION_FAILED - {text}", 50, 20)


def test_the_routing_key_does_not_matter(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "headers")
    queue = topology.queue(client)
    client.call(1, "queue.bind", queue=queue, exchange=exchange, routing_key="one", arguments={"a": 1})
    client.publish(1, exchange, "two", b"found", {"headers": {"a": 1}})
    assert drain(client, queue) == [b"found"]


def test_several_matching_bindings_deliver_once(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "headers")
    queue = topology.queue(client)
    for arguments in ({"a": 1}, {"b": 2}, {"x-match": "any", "a": 1, "b": 2}):
        client.call(1, "queue.bind", queue=queue, exchange=exchange, arguments=arguments)
    client.publish(1, exchange, "", b"once", {"headers": {"a": 1, "b": 2}})
    assert drain(client, queue) == [b"once"]
    client.call(1, "queue.unbind", queue=queue, exchange=exchange, arguments={"x-match": "any", "a": 1, "b": 2})
    client.publish(1, exchange, "", b"by b", {"headers": {"b": 2}})
    assert drain(client, queue) == [b"by b"]


@pytest.mark.parametrize("exchange", ["amq.headers", "amq.match"])
def test_the_predeclared_ones(client: RawClient, topology: Topology, exchange: str) -> None:
    queue = topology.queue(client)
    client.call(1, "queue.bind", queue=queue, exchange=exchange, arguments={"for": queue})
    client.publish(1, exchange, "", b"found", {"headers": {"for": queue}})
    assert drain(client, queue) == [b"found"]
