"""Arguments of queue.declare: which are checked, in which order, and which are compared when declared again.

What the conformance suite asks about single arguments is not asked again here."""

import re

import pytest

from tests.conformance.amqp_codec import Typed, Value
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.target import ORACLE_IS_TARGET
from tests.conformance.topology import Topology, refusal_of, unique_name
from tests.contract.letters import Table

# The longest life of messages and queues: ten years of 365 days.
LIFE_MS_MAX = 10 * 365 * 24 * 3600 * 1000


def refused(client: RawClient, arguments: Table, queue: str | None = None) -> Refusal:
    """Declares a queue that must be refused; the channel is open again afterwards."""
    name = queue or unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=name, exclusive=True, arguments=arguments)
    client.open_channel(1)
    return refusal._replace(text=refusal.text.replace(name, "NAME"))


def precondition_failed(text: str) -> Refusal:
    return Refusal("channel", 406, f"PRECONDITION_FAILED - {text}", 50, 10)


def invalid(argument: str, reason: str) -> Refusal:
    return precondition_failed(f"invalid arg '{argument}' for queue 'NAME' in vhost '/'{reason}")


def inequivalent(argument: str, difference: str) -> Refusal:
    return precondition_failed(f"inequivalent arg '{argument}' for queue 'NAME' in vhost '/': {difference}")


WHOLE_NUMBERS = [
    "x-expires",
    "x-message-ttl",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-queue-version",
]


@pytest.mark.parametrize("argument", WHOLE_NUMBERS)
def test_numbers_are_whole_numbers(client: RawClient, argument: str) -> None:
    wrong = [
        ("5", "longstr"),
        (True, "bool"),
        (5.0, "double"),
        (Typed(b"f", 5.0), "float"),
        (Typed(b"D", (0, 5)), "decimal"),
        (Typed(b"T", 5), "timestamp"),
        (None, "void"),
        (b"5", "binary"),
        ([5], "array"),
        ({"a": 5}, "table"),
    ]
    for value, kind in wrong:
        assert refused(client, {argument: value}) == invalid(argument, f': "expected integer, got {kind}"')
    assert refused(client, {argument: -1}) == invalid(argument, ": {value_negative,-1}")


@pytest.mark.parametrize("argument", WHOLE_NUMBERS)
@pytest.mark.parametrize("tag", [b"b", b"B", b"s", b"u", b"I", b"i", b"l", b"L"])
def test_numbers_have_any_width(client: RawClient, topology: Topology, argument: str, tag: bytes) -> None:
    """One that is too narrow or too wide for other things is as good as any, now and when declared again."""
    queue = topology.queue(client, arguments={argument: Typed(tag, 2)})
    client.call(1, "queue.declare", queue=queue, exclusive=True, arguments={argument: 2})


@pytest.mark.parametrize("argument", ["x-expires", "x-message-ttl"])
def test_the_longest_life(client: RawClient, topology: Topology, argument: str) -> None:
    topology.queue(client, arguments={argument: LIFE_MS_MAX})
    too_long = LIFE_MS_MAX + 1
    assert refused(client, {argument: too_long}) == invalid(argument, f": {{value_too_large,{too_long}}}")


@pytest.mark.parametrize("argument", ["x-max-length", "x-max-length-bytes"])
def test_limits_have_no_limit(client: RawClient, topology: Topology, argument: str) -> None:
    topology.queue(client, arguments={argument: 2**63 - 1})


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("x-queue-type", "", ": \"unsupported queue type ''\""),
        ("x-queue-type", "Classic", ": \"unsupported queue type 'Classic'\""),
        ("x-queue-type", True, ": {unacceptable_type,bool}"),
        ("x-queue-type", None, ": {unacceptable_type,void}"),
        ("x-queue-type", b"classic", ": {unacceptable_type,binary}"),
        ("x-queue-mode", "", ": \"unsupported queue mode ''\""),
        ("x-queue-mode", "LAZY", ": \"unsupported queue mode 'LAZY'\""),
        ("x-queue-mode", b"lazy", ": {unacceptable_type,binary}"),
        ("x-queue-version", 0, ": \"unsupported queue version '0'\""),
        ("x-queue-version", 3, ": \"unsupported queue version '3'\""),
        ("x-overflow", "", ": invalid_overflow"),
        ("x-overflow", "reject", ": invalid_overflow"),
        ("x-overflow", b"drop-head", ": {unacceptable_type,binary}"),
        ("x-overflow", None, ": {unacceptable_type,void}"),
        ("x-single-active-consumer", None, ": {unacceptable_type,void}"),
        ("x-dead-letter-routing-key", "", ": routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", True, ": {unacceptable_type,bool}"),
    ],
)
def test_bad_values(client: RawClient, argument: str, value: Value, reason: str) -> None:
    assert refused(client, {argument: value}) == invalid(argument, reason)


@pytest.mark.parametrize(
    ("value", "kind"), [(True, "bool"), (None, "void"), (b"a", "binary"), ({}, "table"), (1.5, "double")]
)
def test_a_dead_letter_exchange_is_a_name(client: RawClient, value: Value, kind: str) -> None:
    text = f"invalid type '{kind}' for arg 'x-dead-letter-exchange' in queue 'NAME' in vhost '/'"
    assert refused(client, {"x-dead-letter-exchange": value}) == precondition_failed(text)


def test_a_dead_letter_routing_key_is_a_name(client: RawClient) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 5}
    assert refused(client, arguments) == invalid("x-dead-letter-routing-key", ": {unacceptable_type,signedint}")


OTHER_TYPES = [
    "x-quorum-initial-group-size",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-dead-letter-strategy",
    "x-queue-leader-locator",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-initial-cluster-size",
]
# Leveret goes beyond: its classic queues have delivery limits.
if ORACLE_IS_TARGET:
    OTHER_TYPES.append("x-delivery-limit")


@pytest.mark.parametrize("argument", OTHER_TYPES)
@pytest.mark.parametrize("value", [1, "client-local"])
def test_arguments_of_other_queue_types(client: RawClient, argument: str, value: Value) -> None:
    """Refused whatever they say, and last: a bad value of an argument of this type is told before."""
    assert refused(client, {argument: value}) == invalid(argument, " of queue type rabbit_classic_queue")
    both = refused(client, {argument: value, "x-single-active-consumer": 1})
    assert both == invalid("x-single-active-consumer", ": {unacceptable_type,signedint}")


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-type": "classic"},
        {"x-queue-mode": "lazy"},
        {"x-queue-version": 1},
        {"x-queue-version": 2},
        {"x-overflow": "reject-publish-dlx"},
        {"x-overflow": "reject-publish"},
        {"x-dead-letter-exchange": ""},
        {"x-dead-letter-exchange": "not there", "x-dead-letter-routing-key": ""},
        {"x-queue-master-locator": "min-masters"},
        {"x-queue-master-locator": "anything"},
        {"x-queue-master-locator": 5},
        {"x-ha-policy": "all"},
        # Leveret has the argument, as newer versions of RabbitMQ do, and checks it.
        {"x-consumer-timeout": "not checked" if ORACLE_IS_TARGET else 5000},
        {"x-cancel-on-ha-failover": "not checked"},
        {"x-priority": 1},
    ],
)
def test_good_values(client: RawClient, topology: Topology, arguments: Table) -> None:
    queue = topology.queue(client, arguments=arguments)
    client.call(1, "queue.declare", queue=queue, exclusive=True, arguments=arguments)


BAD: Table = {
    "x-dead-letter-exchange": 1,
    "x-queue-type": "round",
    "x-expires": 0,
    "x-message-ttl": -1,
    "x-dead-letter-routing-key": 1,
    "x-max-length": -1,
    "x-max-length-bytes": -1,
    "x-max-priority": -1,
    "x-overflow": 1,
    "x-queue-mode": 1,
    "x-queue-version": 9,
    "x-single-active-consumer": 1,
    "x-max-age": 1,
}


def test_the_order_of_checks(client: RawClient) -> None:
    """One error is told, and always the same, in whatever order the arguments came."""
    left, told = dict(sorted(BAD.items())), []
    while left:
        found = re.search(r"arg '([^']+)'", refused(client, left).text)
        assert found
        told.append(found[1])
        del left[found[1]]
    assert told == list(BAD)


# In the order in which RabbitMQ compares them: argument, two values, and the name of their type.
COMPARED: list[tuple[str, Value, Value, str]] = [
    ("x-expires", 60_000, 60_001, "signedint"),
    ("x-message-ttl", 60_000, 60_001, "signedint"),
    ("x-dead-letter-exchange", "a", "", "longstr"),
    ("x-dead-letter-routing-key", "a", "b", "longstr"),
    ("x-max-length", 5, 6, "signedint"),
    ("x-max-length-bytes", 5, 6, "signedint"),
    ("x-max-priority", 5, 6, "signedint"),
    ("x-overflow", "drop-head", "reject-publish", "longstr"),
    ("x-queue-mode", "lazy", "default", "longstr"),
    ("x-queue-version", 1, 2, "signedint"),
    ("x-single-active-consumer", True, False, "bool"),
    ("x-queue-master-locator", "a", "b", "longstr"),
]


def test_the_order_of_comparison(client: RawClient, topology: Topology) -> None:
    ones = {argument: one for argument, one, _, _ in COMPARED}
    received = {argument: two for argument, _, two, _ in sorted(COMPARED)}
    queue, told = topology.queue(client, arguments=ones), []
    while received != ones:
        found = re.search(r"arg '([^']+)'", refused(client, received, queue).text)
        assert found
        told.append(found[1])
        received[found[1]] = ones[found[1]]
    assert told == [argument for argument, *_ in COMPARED]


@pytest.mark.parametrize(
    ("argument", "one", "two", "kind"),
    [case for case in COMPARED if case[0] in ("x-queue-version", "x-queue-master-locator")],
)
def test_compared_again(
    client: RawClient, topology: Topology, argument: str, one: Value, two: Value, kind: str
) -> None:
    queue, plain = topology.queue(client, arguments={argument: one}), topology.queue(client)
    assert refused(client, {argument: two}, queue) == inequivalent(argument, f"received '{two}' but current is '{one}'")
    assert refused(client, {}, queue) == inequivalent(
        argument, f"received none but current is the value '{one}' of type '{kind}'"
    )
    assert refused(client, {argument: one}, plain) == inequivalent(
        argument, f"received the value '{one}' of type '{kind}' but current is none"
    )


@pytest.mark.parametrize(
    ("tag", "kind"),
    [
        (b"b", "byte"),
        (b"B", "unsignedbyte"),
        (b"s", "short"),
        (b"u", "unsignedshort"),
        (b"I", "signedint"),
        (b"i", "unsignedint"),
        (b"l", "long"),
        (b"L", "long"),
        (b"T", "timestamp"),
    ],
)
def test_names_of_number_types(client: RawClient, topology: Topology, tag: bytes, kind: str) -> None:
    queue = topology.queue(client)
    assert refused(client, {"x-max-length": Typed(tag, 5)}, queue) == inequivalent(
        "x-max-length", f"received the value '5' of type '{kind}' but current is none"
    )


@pytest.mark.parametrize(
    ("current", "received", "difference"),
    [
        ({"x-message-ttl": 5000}, {"x-message-ttl": "5000"}, "received '5000' but current is '5000'"),
        ({"x-message-ttl": 5000}, {"x-message-ttl": True}, "received 'true' but current is '5000'"),
        ({"x-message-ttl": 5000}, {"x-message-ttl": 0.1}, "received '0.1' but current is '5000'"),
        ({"x-message-ttl": 5000}, {"x-message-ttl": None}, "received none but current is '5000'"),
        ({"x-message-ttl": 5000}, {"x-message-ttl": -1}, "received '-1' but current is '5000'"),
        ({"x-overflow": "drop-head"}, {"x-overflow": "burst"}, "received 'burst' but current is 'drop-head'"),
        ({"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": 5}, "received '5' but current is 'a'"),
    ],
)
def test_values_that_would_be_refused_are_compared_first(
    client: RawClient, topology: Topology, current: Table, received: Table, difference: str
) -> None:
    queue = topology.queue(client, arguments=current)
    (argument,) = current
    assert refused(client, received, queue) == inequivalent(argument, difference)


@pytest.mark.parametrize(
    ("current", "received"),
    [
        ({"x-overflow": "drop-head"}, {"x-overflow": b"drop-head"}),
        ({"x-max-length": 5}, {"x-max-length": Typed(b"T", 5)}),
        ({"x-queue-type": "classic"}, {}),
        ({}, {"x-queue-type": "classic"}),
        ({"x-ha-policy": "all"}, {"x-ha-policy": "none"}),
        ({"x-consumer-timeout": 5}, {}),
    ],
)
def test_what_makes_no_difference(client: RawClient, topology: Topology, current: Table, received: Table) -> None:
    """Octets are a text and a moment is a number where they are compared, though neither may be declared."""
    queue = topology.queue(client, arguments=current)
    client.call(1, "queue.declare", queue=queue, exclusive=True, arguments=received)


@pytest.mark.parametrize("durable", [False, True])
def test_an_exclusive_queue_is_never_durable(client: RawClient, topology: Topology, durable: bool) -> None:
    queue = topology.queue(client, durable=durable)
    client.call(1, "queue.declare", queue=queue, exclusive=True, durable=not durable)
