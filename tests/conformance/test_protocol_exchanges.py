"""Exchanges: those that are always there, declaring them again, auto-delete, alternates."""

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain, refusal_of, unique_name

PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}


@pytest.mark.parametrize(("name", "kind"), PREDECLARED.items())
def test_predeclared_exchanges(client: RawClient, name: str, kind: str) -> None:
    client.call(1, "exchange.declare", exchange=name, type=kind, durable=True)


def test_the_trace_exchange_is_there_and_internal(client: RawClient) -> None:
    trace = "amq.rabbitmq.trace"
    client.call(1, "exchange.declare", exchange=trace, type="topic", durable=True, internal=True)
    client.publish(1, trace, "key")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{trace}' in vhost '/'"
    assert client.refusal() == Refusal("channel", 403, text, 60, 40)


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_declared_again_the_same(client: RawClient, topology: Topology, kind: str) -> None:
    exchange = topology.exchange(client, kind, durable=True, arguments={"alternate-exchange": "amq.fanout"})
    arguments = {"alternate-exchange": "amq.fanout"}
    client.call(1, "exchange.declare", exchange=exchange, type=kind, durable=True, arguments=arguments)


@pytest.mark.parametrize(
    ("first", "again", "argument", "difference"),
    [
        ({}, {"type": "fanout"}, "type", "received 'fanout' but current is 'direct'"),
        ({}, {"durable": True}, "durable", "received 'true' but current is 'false'"),
        ({"durable": True}, {}, "durable", "received 'false' but current is 'true'"),
        ({}, {"auto_delete": True}, "auto_delete", "received 'true' but current is 'false'"),
        ({}, {"internal": True}, "internal", "received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "one"}},
            {"arguments": {"alternate-exchange": "two"}},
            "alternate-exchange",
            "received 'two' but current is 'one'",
        ),
        (
            {},
            {"arguments": {"alternate-exchange": "two"}},
            "alternate-exchange",
            "received the value 'two' of type 'longstr' but current is none",
        ),
        (
            {"arguments": {"alternate-exchange": "one"}},
            {},
            "alternate-exchange",
            "received none but current is the value 'one' of type 'longstr'",
        ),
    ],
)
def test_declared_again_otherwise(
    client: RawClient,
    topology: Topology,
    first: dict[str, Value],
    again: dict[str, Value],
    argument: str,
    difference: str,
) -> None:
    exchange = topology.exchange(client, "direct", **first)
    refusal = refusal_of(client, "exchange.declare", **{"exchange": exchange, "type": "direct", **again})
    text = f"PRECONDITION_FAILED - inequivalent arg '{argument}' for exchange '{exchange}' in vhost '/': {difference}"
    assert refusal == Refusal("channel", 406, text, 40, 10)


def test_unknown_arguments_are_not_compared(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct", arguments={"mine": 1})
    client.call(1, "exchange.declare", exchange=exchange, type="direct", arguments={"mine": "two"})


@pytest.mark.parametrize("kind", ["direct", "fanout", "nonsense", ""])
def test_a_passive_declare_compares_nothing(client: RawClient, kind: str) -> None:
    client.call(1, "exchange.declare", exchange="amq.direct", type=kind, passive=True)


def test_an_alternate_exchange_is_a_name(client: RawClient) -> None:
    exchange = unique_name("exchange")
    refusal = refusal_of(
        client, "exchange.declare", exchange=exchange, type="direct", arguments={"alternate-exchange": 1}
    )
    text = (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' "
        f"in exchange '{exchange}' in vhost '/'"
    )
    assert refusal == Refusal("channel", 406, text, 40, 10)


def test_a_deleted_exchange_is_gone_with_its_bindings(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout")
    queue = topology.bound_queue(client, exchange, "")
    client.call(1, "exchange.delete", exchange=exchange)
    client.call(1, "exchange.declare", exchange=exchange, type="fanout")
    client.publish(1, exchange, "", b"lost")
    assert drain(client, queue) == []


def test_delete_if_unused(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout")
    queue = topology.bound_queue(client, exchange, "")
    client.call(1, "queue.unbind", queue=queue, exchange=exchange)
    client.call(1, "exchange.delete", exchange=exchange, if_unused=True)
    assert refusal_of(client, "exchange.declare", exchange=exchange, passive=True).code == 404


def test_an_exchange_that_is_only_bound_to_others_is_unused(client: RawClient, topology: Topology) -> None:
    source, destination = topology.exchange(client, "fanout"), topology.exchange(client, "fanout")
    client.call(1, "exchange.bind", destination=destination, source=source)
    client.call(1, "exchange.delete", exchange=destination, if_unused=True)


@pytest.mark.parametrize("way", ["unbind", "delete"])
def test_an_auto_delete_exchange_goes_with_its_last_binding(client: RawClient, topology: Topology, way: str) -> None:
    exchange = topology.exchange(client, "direct", auto_delete=True)
    queue = topology.bound_queue(client, exchange, "one", "two")
    client.call(1, "queue.unbind", queue=queue, exchange=exchange, routing_key="one")
    client.call(1, "exchange.declare", exchange=exchange, passive=True)
    if way == "unbind":
        client.call(1, "queue.unbind", queue=queue, exchange=exchange, routing_key="two")
    else:
        client.call(1, "queue.delete", queue=queue)
    assert refusal_of(client, "exchange.declare", exchange=exchange, passive=True).code == 404


def test_an_auto_delete_exchange_that_was_never_bound_stays(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct", auto_delete=True)
    client.publish(1, exchange, "key")
    client.call(1, "exchange.declare", exchange=exchange, passive=True)


def test_bindings_to_an_auto_delete_exchange_do_not_keep_it(client: RawClient, topology: Topology) -> None:
    """Only bindings from it count: the one from the source keeps neither, and goes along."""
    source = topology.exchange(client, "fanout")
    exchange = topology.exchange(client, "fanout", auto_delete=True)
    queue = topology.bound_queue(client, exchange, "")
    client.call(1, "exchange.bind", destination=exchange, source=source)
    client.call(1, "queue.unbind", queue=queue, exchange=exchange)
    client.call(1, "exchange.delete", exchange=source, if_unused=True)
    assert refusal_of(client, "exchange.declare", exchange=exchange, passive=True).code == 404


def test_auto_delete_runs_along_a_chain_of_exchanges(client: RawClient, topology: Topology) -> None:
    first = topology.exchange(client, "fanout", auto_delete=True)
    second = topology.exchange(client, "fanout", auto_delete=True)
    client.call(1, "exchange.bind", destination=second, source=first)
    queue = topology.bound_queue(client, second, "")
    client.call(1, "queue.delete", queue=queue)
    for exchange in (first, second):
        assert refusal_of(client, "exchange.declare", exchange=exchange, passive=True).code == 404
        client.open_channel(1)


def test_an_alternate_exchange_gets_what_cannot_be_routed(client: RawClient, topology: Topology) -> None:
    alternate = topology.exchange(client, "fanout")
    main = topology.exchange(client, "direct", arguments={"alternate-exchange": alternate})
    routed = topology.bound_queue(client, main, "known")
    unrouted = topology.bound_queue(client, alternate, "")
    client.publish(1, main, "known", b"1")
    client.publish(1, main, "unknown", b"2", mandatory=True)
    client.expect_quiet()
    assert (drain(client, routed), drain(client, unrouted)) == ([b"1"], [b"2"])


def test_alternate_exchanges_form_a_chain(client: RawClient, topology: Topology) -> None:
    last = topology.exchange(client, "direct")
    middle = topology.exchange(client, "direct", arguments={"alternate-exchange": last})
    first = topology.exchange(client, "direct", arguments={"alternate-exchange": middle})
    queue = topology.bound_queue(client, last, "key")
    client.publish(1, first, "key", b"at last", mandatory=True)
    delivered = client.call(1, "basic.get", queue=queue)
    # The message still tells the exchange it was published to.
    assert (delivered.body, delivered["exchange"], delivered["routing_key"]) == (b"at last", first, "key")


def test_mandatory_is_judged_at_the_end_of_the_chain(client: RawClient, topology: Topology) -> None:
    last = topology.exchange(client, "direct")
    first = topology.exchange(client, "direct", arguments={"alternate-exchange": last})
    client.publish(1, first, "key", b"nowhere", mandatory=True)
    returned = client.expect(1, "basic.return")
    assert (returned.body, returned["exchange"], returned["reply_code"]) == (b"nowhere", first, 312)


def test_a_missing_alternate_exchange_is_no_error(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct", arguments={"alternate-exchange": unique_name("gone")})
    client.publish(1, exchange, "key", b"nowhere", mandatory=True)
    assert client.expect(1, "basic.return").body == b"nowhere"


def test_alternate_exchanges_in_a_circle(client: RawClient, topology: Topology) -> None:
    one, two = unique_name("exchange"), unique_name("exchange")
    topology.exchanges += [one, two]
    for name, alternate in ((one, two), (two, one)):
        arguments = {"alternate-exchange": alternate}
        client.call(1, "exchange.declare", exchange=name, type="direct", arguments=arguments)
    client.publish(1, one, "key", b"round and round", mandatory=True)
    assert client.expect(1, "basic.return").body == b"round and round"
    queue = topology.bound_queue(client, two, "key")
    client.publish(1, one, "key", b"out")
    assert drain(client, queue) == [b"out"]
