"""queue.declare of streams: what they must be, which arguments they take, and what is compared when declared again."""

import re

import pytest

from tests.conformance.amqp_codec import Typed, Value
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, refusal_of, unique_name
from tests.contract.letters import Publisher, Table, wait_for_ready
from tests.contract.streams import STREAM, make_stream, refused_declare, refused_stream

SEGMENT_BYTES_MAX = 3_000_000_000


def failed(text: str) -> Refusal:
    return Refusal("channel", 406, f"PRECONDITION_FAILED - {text}", 50, 10)


def invalid(argument: str, reason: str) -> Refusal:
    return failed(f"invalid arg '{argument}' for queue 'NAME' in vhost '/'{reason}")


def inequivalent(argument: str, difference: str) -> Refusal:
    return failed(f"inequivalent arg '{argument}' for queue 'NAME' in vhost '/': {difference}")


def of_other_types(argument: str) -> Refusal:
    return invalid(argument, " of queue type rabbit_stream_queue")


AUTO_DELETE, EXCLUSIVE, TRANSIENT = {"auto_delete": True}, {"exclusive": True}, {"durable": False}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (TRANSIENT, "non-durable"),
        (EXCLUSIVE, "exclusive-owner"),
        (AUTO_DELETE, "auto-delete"),
        ({**TRANSIENT, **EXCLUSIVE}, "exclusive-owner"),
        ({**TRANSIENT, **EXCLUSIVE, **AUTO_DELETE}, "auto-delete"),
    ],
)
def test_streams_are_durable_and_for_all(client: RawClient, options: Table, told: str) -> None:
    refusal = refused_stream(client, {}, **options)
    assert refusal == failed(f"invalid property '{told}' for queue 'NAME' in vhost '/'")


def test_streams_have_names(client: RawClient) -> None:
    told = failed("Cannot declare a server-named queue for type rabbit_stream_queue")
    assert refused_declare(client, "", STREAM) == told
    assert refused_declare(client, "", {**STREAM, "x-expires": 1, "x-max-age": "5"}, durable=False) == told


@pytest.mark.parametrize("kind", ["Stream", "streams"])
def test_how_the_type_is_spelt(client: RawClient, kind: str) -> None:
    told = invalid("x-queue-type", f": \"unsupported queue type '{kind}'\"")
    assert refused_stream(client, {"x-queue-type": kind}) == told


NUMBERS = ["x-max-length-bytes", "x-stream-max-segment-size-bytes", "x-initial-cluster-size"]
NO_NUMBERS = [
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


@pytest.mark.parametrize("argument", NUMBERS)
def test_numbers(client: RawClient, argument: str) -> None:
    for value, kind in NO_NUMBERS:
        assert refused_stream(client, {argument: value}) == invalid(argument, f': "expected integer, got {kind}"')
    assert refused_stream(client, {argument: -1}) == invalid(argument, ": {value_negative,-1}")


def test_no_empty_cluster(client: RawClient) -> None:
    refusal = refused_stream(client, {"x-initial-cluster-size": 0})
    assert refusal == invalid("x-initial-cluster-size", ": {value_zero,0}")


def test_the_largest_segment(client: RawClient, topology: Topology) -> None:
    argument = "x-stream-max-segment-size-bytes"
    make_stream(client, topology, {argument: SEGMENT_BYTES_MAX})
    refusal = refused_stream(client, {argument: SEGMENT_BYTES_MAX + 1})
    assert refusal == failed("Exceeded max value for x-stream-max-segment-size-bytes")


TEXTS = ["x-max-age", "x-queue-leader-locator"]
NO_TEXTS = [(5, "signedint"), (2**40, "long"), *((value, kind) for value, kind in NO_NUMBERS if kind != "longstr")]


@pytest.mark.parametrize("argument", TEXTS)
def test_texts(client: RawClient, argument: str) -> None:
    for value, kind in NO_TEXTS:
        assert refused_stream(client, {argument: value}) == invalid(argument, f": {{unacceptable_type,{kind}}}")


@pytest.mark.parametrize("age", ["5", "0s", "1S", "1H", "1d", "1w", "1ms", "1.5h", "1 h", "1h ", "1h30m"])
def test_bad_ages(client: RawClient, age: str) -> None:
    assert refused_stream(client, {"x-max-age": age}) == invalid("x-max-age", ": invalid_max_age")


def test_bad_locators(client: RawClient) -> None:
    for locator in ("", "min-masters", "Client-Local"):
        refusal = refused_stream(client, {"x-queue-leader-locator": locator})
        assert refusal == invalid("x-queue-leader-locator", ": invalid_queue_locator_arg")


GOOD: list[Table] = [
    *({"x-max-age": f"10{unit}"} for unit in "YMDhms"),
    *({"x-queue-leader-locator": place} for place in ("client-local", "balanced", "random", "least-leaders")),
    {"x-max-length-bytes": 0, "x-stream-max-segment-size-bytes": 0, "x-initial-cluster-size": 1},
    {argument: Typed(b"l", 5000) for argument in NUMBERS},
    {argument: Typed(b"b", 50) for argument in NUMBERS},
    {"x-max-length-bytes": 2**62, "x-initial-cluster-size": 2**40},
    {"x-ha-policy": "all", "x-anything": [1, None]},
]


def test_good_arguments(client: RawClient, topology: Topology) -> None:
    for arguments in GOOD:
        stream = make_stream(client, topology, arguments)
        again = client.call(1, "queue.declare", queue=stream, durable=True, arguments={**arguments, **STREAM})
        assert again.fields == {"queue": stream, "message_count": 0, "consumer_count": 0}


OTHER_TYPES = [
    "x-expires",
    "x-message-ttl",
    "x-max-length",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-queue-version",
    "x-queue-master-locator",
]


def test_arguments_of_other_queue_types(client: RawClient) -> None:
    """Refused whatever they say, but for the name of an exchange, which is looked at whatever the queue's type."""
    for argument in OTHER_TYPES:
        assert refused_stream(client, {argument: "drop-head"}) == of_other_types(argument)
        if argument != "x-dead-letter-exchange":
            assert refused_stream(client, {argument: []}) == of_other_types(argument)
    refusal = refused_stream(client, {"x-expires": 1, "x-dead-letter-exchange": []})
    assert refusal == failed("invalid type 'array' for arg 'x-dead-letter-exchange' in queue 'NAME' in vhost '/'")


BAD: Table = {
    "x-dead-letter-exchange": 1,
    "x-max-length-bytes": -1,
    "x-max-age": "5",
    "x-stream-max-segment-size-bytes": -1,
    "x-initial-cluster-size": 0,
    "x-queue-leader-locator": "x",
}


def named(refusal: Refusal) -> str:
    found = re.search(r"arg '([^']+)'", refusal.text)
    assert found, refusal
    return found[1]


def test_the_order_of_checks(client: RawClient) -> None:
    """Values in an order of their own, then arguments of other types as they came, then what the queue is to be."""
    left, told = {"x-overflow": 1, **dict(sorted(BAD.items())), "x-expires": 1}, []
    while left:
        told.append(named(refused_stream(client, left, durable=False)))
        del left[told[-1]]
    assert told == [*BAD, "x-overflow", "x-expires"]
    too_large = {"x-stream-max-segment-size-bytes": SEGMENT_BYTES_MAX + 1}
    assert "'non-durable'" in refused_stream(client, too_large, durable=False).text


# In the order in which RabbitMQ compares them: argument, two values, and the name of their type.
COMPARED: list[tuple[str, Value, Value, str]] = [
    ("x-max-length-bytes", 5000, 6000, "signedint"),
    ("x-queue-type", "stream", "classic", "longstr"),
    ("x-max-age", "1h", "60m", "longstr"),
    ("x-stream-max-segment-size-bytes", 5000, 6000, "signedint"),
    ("x-initial-cluster-size", 1, 2, "signedint"),
    ("x-queue-leader-locator", "balanced", "random", "longstr"),
]


def test_the_order_of_comparison(client: RawClient, topology: Topology) -> None:
    ones = {argument: one for argument, one, _, _ in COMPARED}
    received = {argument: two for argument, _, two, _ in sorted(COMPARED)}
    stream, told = make_stream(client, topology, ones), []
    while received != ones:
        told.append(named(refused_declare(client, stream, received)))
        received[told[-1]] = ones[told[-1]]
    assert told == [argument for argument, *_ in COMPARED]


@pytest.mark.parametrize(("argument", "one", "two", "kind"), COMPARED)
def test_compared_again(
    client: RawClient, topology: Topology, argument: str, one: Value, two: Value, kind: str
) -> None:
    stream = make_stream(client, topology, {argument: one})
    refusal = refused_declare(client, stream, {**STREAM, argument: two})
    assert refusal == inequivalent(argument, f"received '{two}' but current is '{one}'")
    without = {} if argument in STREAM else STREAM
    difference = f"received none but current is the value '{one}' of type '{kind}'"
    assert refused_declare(client, stream, without) == inequivalent(argument, difference)


def test_flags_are_compared_before_arguments(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    other = {**STREAM, "x-max-length-bytes": 5}
    refusal = refused_declare(client, stream, other, durable=False)
    assert refusal == inequivalent("durable", "received 'false' but current is 'true'")
    refusal = refused_declare(client, stream, other, auto_delete=True)
    assert refusal == inequivalent("auto_delete", "received 'true' but current is 'false'")
    assert refused_declare(client, stream, other, exclusive=True).code == 405


def test_values_that_would_be_refused_are_compared_first(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    for argument, value, kind in (
        ("x-max-age", "5", "longstr"),
        ("x-stream-max-segment-size-bytes", SEGMENT_BYTES_MAX + 1, "long"),
    ):
        told = inequivalent(argument, f"received the value '{value}' of type '{kind}' but current is none")
        assert refused_declare(client, stream, {**STREAM, argument: value}) == told


@pytest.mark.parametrize(
    ("current", "received"),
    [
        ({"x-max-length-bytes": 5000}, {"x-max-length-bytes": Typed(b"l", 5000)}),
        ({"x-initial-cluster-size": 1}, {"x-initial-cluster-size": Typed(b"s", 1)}),
        ({"x-anything": 1}, {"x-anything": 2}),
        ({"x-anything": 1}, {}),
        ({}, {"x-expires": 5}),
    ],
)
def test_what_makes_no_difference(client: RawClient, topology: Topology, current: Table, received: Table) -> None:
    """Arguments of other types are not even refused where the stream is there already."""
    stream = make_stream(client, topology, current)
    client.call(1, "queue.declare", queue=stream, durable=True, arguments={**STREAM, **received})


def test_over_a_queue_of_another_type(client: RawClient, topology: Topology) -> None:
    classic = topology.queue(client, exclusive=False, durable=True)
    refusal = refused_declare(client, classic, STREAM)
    assert refusal == inequivalent("x-queue-type", "received the value 'stream' of type 'longstr' but current is none")


def test_passive(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Flags and arguments are not looked at. RabbitMQ counts every five seconds."""
    stream = make_stream(client, topology)
    publisher.publish_all(stream, b"a", b"b")
    wait_for_ready(client, stream, 2)
    told = client.call(1, "queue.declare", queue=stream, passive=True, arguments={"x-queue-type": "classic"})
    assert (told["queue"], told["message_count"]) == (stream, 2)


def test_passive_of_none(client: RawClient) -> None:
    name = unique_name("stream")
    refusal = refusal_of(client, "queue.declare", queue=name, passive=True, arguments=STREAM)
    assert refusal == Refusal("channel", 404, f"NOT_FOUND - no queue '{name}' in vhost '/'", 50, 10)
