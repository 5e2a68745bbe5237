"""Declaring a queue: which arguments are accepted, and what counts as the same queue when it is declared again."""

import pytest

from tests.conformance.amqp_codec import Typed, Value
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.target import ORACLE_IS_TARGET
from tests.conformance.topology import Topology, refusal_of, unique_name

Arguments = dict[str, Value]


def inequivalent(argument: str, queue: str, difference: str) -> Refusal:
    text = f"PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{queue}' in vhost '/': {difference}"
    return Refusal("channel", 406, text, 50, 10)


@pytest.mark.parametrize(
    ("first", "again", "flag", "difference"),
    [
        ({}, {"durable": True}, "durable", "received 'true' but current is 'false'"),
        ({"durable": True}, {}, "durable", "received 'false' but current is 'true'"),
        ({}, {"auto_delete": True}, "auto_delete", "received 'true' but current is 'false'"),
        ({"auto_delete": True}, {}, "auto_delete", "received 'false' but current is 'true'"),
    ],
)
def test_declared_again_with_another_flag(
    client: RawClient, topology: Topology, first: Arguments, again: Arguments, flag: str, difference: str
) -> None:
    queue = topology.queue(client, exclusive=False, **first)
    assert refusal_of(client, "queue.declare", queue=queue, **again) == inequivalent(flag, queue, difference)


@pytest.mark.parametrize("exclusive", [False, True])
def test_declared_again_with_another_exclusivity(client: RawClient, topology: Topology, exclusive: bool) -> None:
    queue = topology.queue(client, exclusive=exclusive)
    refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=not exclusive)
    assert (refusal.scope, refusal.code, refusal.class_id, refusal.method_id) == ("channel", 405, 50, 10)
    assert refusal.text.startswith(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. It could be"
    )


# Argument, two values it may have, and the name RabbitMQ gives to their type.
COMPARED: list[tuple[str, Value, Value, str]] = [
    ("x-message-ttl", 60_000, 61_000, "signedint"),
    ("x-expires", 60_000, 61_000, "signedint"),
    ("x-max-length", 5, 6, "signedint"),
    ("x-max-length-bytes", 5, 6, "signedint"),
    ("x-dead-letter-exchange", "one", "two", "longstr"),
    ("x-max-priority", 5, 6, "signedint"),
    ("x-overflow", "drop-head", "reject-publish", "longstr"),
    ("x-queue-mode", "default", "lazy", "longstr"),
    ("x-single-active-consumer", True, False, "bool"),
]


def shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(("argument", "one", "two", "kind"), COMPARED)
class TestDeclaredAgain:
    """With the same arguments it is the same queue; with another value, one more or one less it is not."""

    def test_same(
        self, client: RawClient, topology: Topology, argument: str, one: Value, two: Value, kind: str
    ) -> None:
        queue = topology.queue(client, arguments={argument: one})
        client.call(1, "queue.declare", queue=queue, exclusive=True, arguments={argument: one})

    def test_other(
        self, client: RawClient, topology: Topology, argument: str, one: Value, two: Value, kind: str
    ) -> None:
        queue = topology.queue(client, arguments={argument: one})
        refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True, arguments={argument: two})
        assert refusal == inequivalent(argument, queue, f"received '{shown(two)}' but current is '{shown(one)}'")

    def test_more(
        self, client: RawClient, topology: Topology, argument: str, one: Value, two: Value, kind: str
    ) -> None:
        queue = topology.queue(client)
        refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True, arguments={argument: one})
        difference = f"received the value '{shown(one)}' of type '{kind}' but current is none"
        assert refusal == inequivalent(argument, queue, difference)

    def test_less(
        self, client: RawClient, topology: Topology, argument: str, one: Value, two: Value, kind: str
    ) -> None:
        queue = topology.queue(client, arguments={argument: one})
        refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True)
        difference = f"received none but current is the value '{shown(one)}' of type '{kind}'"
        assert refusal == inequivalent(argument, queue, difference)


def test_dead_letter_routing_keys_are_compared(client: RawClient, topology: Topology) -> None:
    first = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "one"}
    queue = topology.queue(client, arguments=first)
    again = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "two"}
    refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True, arguments=again)
    assert refusal == inequivalent("x-dead-letter-routing-key", queue, "received 'two' but current is 'one'")


@pytest.mark.parametrize("tag", [b"b", b"B", b"s", b"u", b"I", b"i", b"l"])
def test_integers_are_compared_by_value(client: RawClient, topology: Topology, tag: bytes) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 5})
    client.call(1, "queue.declare", queue=queue, exclusive=True, arguments={"x-max-length": Typed(tag, 5)})


@pytest.mark.parametrize(
    ("first", "again"), [({}, {"x-mine": 1}), ({"x-mine": 1}, {"x-mine": "2"}), ({"x-mine": 1}, {})]
)
def test_unknown_arguments_are_not_compared(
    client: RawClient, topology: Topology, first: Arguments, again: Arguments
) -> None:
    queue = topology.queue(client, arguments=first)
    client.call(1, "queue.declare", queue=queue, exclusive=True, arguments=again)


def test_classic_is_the_type_when_none_is_named(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-queue-type": "classic"})
    client.call(1, "queue.declare", queue=queue, exclusive=True)


def test_a_passive_declare_compares_nothing(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 5})
    arguments = {"x-max-length": 6, "x-message-ttl": "not even valid"}
    client.call(1, "queue.declare", queue=queue, passive=True, durable=True, auto_delete=True, arguments=arguments)


def invalid(argument: str, queue: str, reason: str) -> Refusal:
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/': {reason}"
    return Refusal("channel", 406, text, 50, 10)


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("x-message-ttl", "a", '"expected integer, got longstr"'),
        ("x-message-ttl", 1.5, '"expected integer, got double"'),
        ("x-message-ttl", None, '"expected integer, got void"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", 1 << 40, "{value_too_large,1099511627776}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", 1 << 40, "{value_too_large,1099511627776}"),
        ("x-max-length", "a", '"expected integer, got longstr"'),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-max-priority", "a", '"expected integer, got longstr"'),
        ("x-dead-letter-routing-key", 1, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "a", "routing_key_but_no_dlx_defined"),
        ("x-overflow", "burst", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "eager", "\"unsupported queue mode 'eager'\""),
        ("x-queue-mode", 1, "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-queue-type", "round", "\"unsupported queue type 'round'\""),
        ("x-queue-type", 1, "{unacceptable_type,signedint}"),
    ],
)
def test_bad_values(client: RawClient, argument: str, value: Value, reason: str) -> None:
    queue = unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True, arguments={argument: value})
    assert refusal == invalid(argument, queue, reason)


def test_a_dead_letter_exchange_is_a_name(client: RawClient) -> None:
    queue = unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=queue, arguments={"x-dead-letter-exchange": 1})
    text = (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' "
        f"in queue '{queue}' in vhost '/'"
    )
    assert refusal == Refusal("channel", 406, text, 50, 10)


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-max-length": 0},
        {"x-max-priority": 0},
        {"x-max-priority": 255},
        {"x-max-length": Typed(b"l", 1 << 40)},
        {"x-anything": {"nested": [1, None, "two"]}},
    ],
)
def test_good_values(client: RawClient, topology: Topology, arguments: Arguments) -> None:
    topology.queue(client, arguments=arguments)


@pytest.mark.parametrize("argument", ["x-quorum-initial-group-size", "x-max-age"])
def test_arguments_of_another_queue_type(client: RawClient, argument: str) -> None:
    queue = unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=queue, arguments={argument: 3})
    assert refusal[:2] == ("channel", 406)
    assert refusal.text.startswith(f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/'")


def test_a_delivery_limit_of_a_classic_queue(client: RawClient, topology: Topology) -> None:
    """RabbitMQ has it for quorum queues alone; here every queue that is told so counts."""
    if not ORACLE_IS_TARGET:
        topology.queue(client, arguments={"x-delivery-limit": 3})
        return
    queue = unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=queue, arguments={"x-delivery-limit": 3})
    assert refusal[:2] == ("channel", 406)
    assert refusal.text.startswith(f"PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for queue '{queue}'")
