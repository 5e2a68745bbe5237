"""Bindings of queues and exchanges to exchanges: each queue gets a message once, however many ways lead to it."""

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, drain, unique_name


def test_every_queue_is_bound_to_the_default_exchange(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.publish(1, "", queue, b"direct")
    delivered = client.call(1, "basic.get", queue=queue)
    assert (delivered.body, delivered["exchange"], delivered["routing_key"]) == (b"direct", "", queue)


@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_several_matching_bindings_deliver_once(client: RawClient, topology: Topology, kind: str) -> None:
    exchange = topology.exchange(client, kind)
    queue = topology.bound_queue(client, exchange, "a.b", "a.*", "#", "*.b")
    client.publish(1, exchange, "a.b", b"once")
    assert drain(client, queue) == [b"once"]


def test_binding_twice_is_binding_once(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct")
    queue = topology.bound_queue(client, exchange, "key", "key")
    client.publish(1, exchange, "key", b"1")
    client.call(1, "queue.unbind", queue=queue, exchange=exchange, routing_key="key")
    client.publish(1, exchange, "key", b"2")
    assert drain(client, queue) == [b"1"]


def test_bindings_with_other_arguments_are_other_bindings(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct")
    queue = topology.queue(client)
    binding = {"queue": queue, "exchange": exchange, "routing_key": "key"}
    client.call(1, "queue.bind", binding, arguments={"n": 1})
    client.call(1, "queue.bind", binding, arguments={"n": 2})
    client.publish(1, exchange, "key", b"1")
    client.call(1, "queue.unbind", binding, arguments={"n": 1})
    client.publish(1, exchange, "key", b"2")
    client.call(1, "queue.unbind", binding, arguments={"n": 3})
    client.publish(1, exchange, "key", b"3")
    client.call(1, "queue.unbind", binding, arguments={"n": 2})
    client.publish(1, exchange, "key", b"4")
    assert drain(client, queue) == [b"1", b"2", b"3"]


def test_fanout_ignores_the_key_and_copies_to_every_queue(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout")
    queues = [topology.bound_queue(client, exchange, key) for key in ("", "a", "b")]
    client.publish(1, exchange, "c", b"all")
    assert [drain(client, queue) for queue in queues] == [[b"all"]] * 3


def test_direct_matches_the_whole_key(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct")
    queue = topology.bound_queue(client, exchange, "a.*", "")
    for key in ("a.b", "a.*", "A.*", "", "a"):
        client.publish(1, exchange, key, key.encode())
    assert drain(client, queue) == [b"a.*", b""]


def test_an_exchange_bound_to_an_exchange(client: RawClient, topology: Topology) -> None:
    source, destination = topology.exchange(client, "topic"), topology.exchange(client, "direct")
    client.call(1, "exchange.bind", destination=destination, source=source, routing_key="a.#")
    queue = topology.bound_queue(client, destination, "a.b")
    for key in ("a.b", "a.c", "b"):
        client.publish(1, source, key, key.encode())
    delivered = client.call(1, "basic.get", queue=queue, no_ack=True)
    assert (delivered.body, delivered["exchange"]) == (b"a.b", source)
    assert drain(client, queue) == []
    client.call(1, "exchange.unbind", destination=destination, source=source, routing_key="a.#")
    client.publish(1, source, "a.b", b"unbound")
    assert drain(client, queue) == []


def test_an_internal_exchange_is_reached_through_another(client: RawClient, topology: Topology) -> None:
    source, inner = topology.exchange(client, "fanout"), topology.exchange(client, "fanout", internal=True)
    client.call(1, "exchange.bind", destination=inner, source=source)
    queue = topology.bound_queue(client, inner, "")
    client.publish(1, source, "", b"through")
    assert drain(client, queue) == [b"through"]


def test_a_circle_of_exchanges_delivers_once(client: RawClient, topology: Topology) -> None:
    exchanges = [topology.exchange(client, "fanout") for _ in range(3)]
    for source, destination in zip(exchanges, exchanges[1:] + exchanges[:1], strict=True):
        client.call(1, "exchange.bind", destination=destination, source=source)
    queue = topology.bound_queue(client, exchanges[2], "")
    for exchange in exchanges:
        client.publish(1, exchange, "", exchange.encode())
    assert drain(client, queue) == [exchange.encode() for exchange in exchanges]


def test_an_exchange_bound_to_itself(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout")
    client.call(1, "exchange.bind", destination=exchange, source=exchange)
    queue = topology.bound_queue(client, exchange, "")
    client.publish(1, exchange, "", b"once")
    assert drain(client, queue) == [b"once"]


def test_two_ways_to_one_queue_deliver_once(client: RawClient, topology: Topology) -> None:
    source = topology.exchange(client, "fanout")
    queue = topology.bound_queue(client, source, "")
    for _ in range(2):
        middle = topology.exchange(client, "fanout")
        client.call(1, "exchange.bind", destination=middle, source=source)
        client.call(1, "queue.bind", queue=queue, exchange=middle)
    client.publish(1, source, "", b"once")
    assert drain(client, queue) == [b"once"]


def test_a_destinations_alternate_exchange_counts(client: RawClient, topology: Topology) -> None:
    alternate = topology.exchange(client, "fanout")
    source = topology.exchange(client, "fanout")
    destination = topology.exchange(client, "direct", arguments={"alternate-exchange": alternate})
    client.call(1, "exchange.bind", destination=destination, source=source)
    queue = topology.bound_queue(client, alternate, "")
    client.publish(1, source, "nobody", b"caught")
    assert drain(client, queue) == [b"caught"]


def test_deleting_an_exchange_removes_bindings_to_it(client: RawClient, topology: Topology) -> None:
    source, destination = topology.exchange(client, "fanout"), topology.exchange(client, "fanout")
    client.call(1, "exchange.bind", destination=destination, source=source)
    client.call(1, "exchange.delete", exchange=destination)
    client.call(1, "exchange.delete", exchange=source, if_unused=True)


def test_exchange_bindings_without_an_answer(client: RawClient, topology: Topology) -> None:
    source, destination = topology.exchange(client, "fanout"), unique_name("exchange")
    topology.exchanges.append(destination)
    client.send(1, "exchange.declare", exchange=destination, type="fanout", nowait=True)
    client.send(1, "exchange.bind", destination=destination, source=source, nowait=True)
    queue = topology.bound_queue(client, destination, "")
    client.publish(1, source, "", b"1")
    assert drain(client, queue) == [b"1"]
    client.send(1, "exchange.unbind", destination=destination, source=source, nowait=True)
    client.publish(1, source, "", b"2")
    client.expect_quiet()
    assert drain(client, queue) == []


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_go_to_further_keys(client: RawClient, topology: Topology, header: str) -> None:
    exchange = topology.exchange(client, "direct")
    first, second, third = (topology.bound_queue(client, exchange, key) for key in ("1", "2", "3"))
    client.publish(1, exchange, "1", b"copy", {"headers": {header: ["2", "3"], "kept": True}})
    assert (drain(client, first), drain(client, second)) == ([b"copy"], [b"copy"])
    delivered = client.call(1, "basic.get", queue=third)
    # A blind copy does not show who else got it; the routing key is the one published with.
    shown = {"CC": ["2", "3"], "kept": True} if header == "CC" else {"kept": True}
    assert (delivered.properties["headers"], delivered["routing_key"]) == (shown, "1")


def test_copies_deliver_once_to_each_queue(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct")
    queue = topology.bound_queue(client, exchange, "1", "2", "3")
    client.publish(1, exchange, "1", b"once", {"headers": {"CC": ["2", "1"], "BCC": ["3"]}})
    assert drain(client, queue) == [b"once"]


def test_copies_through_the_default_exchange_and_mandatory(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.publish(1, "", unique_name("nobody"), b"copied", {"headers": {"CC": [queue]}}, mandatory=True)
    client.expect_quiet()
    assert drain(client, queue) == [b"copied"]


def test_a_returned_message_shows_no_blind_copies(client: RawClient) -> None:
    headers = {"CC": ["nobody", "else"], "BCC": ["secret"]}
    client.publish(1, "", unique_name("nobody"), b"back", {"headers": headers}, mandatory=True)
    assert client.expect(1, "basic.return").properties == {"headers": {"CC": ["nobody", "else"]}}
