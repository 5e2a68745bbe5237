"""What streams throw away: whole segments, oldest first, by size and age, by arguments and policies.

RabbitMQ keeps its own notes in a stream, which take offsets at the beginning of each segment: places are not counted
here, only messages."""

import time

import pytest

from tests.conformance.amqp_codec import Typed
from tests.conformance.raw_client import RawClient
from tests.conformance.target import ORACLE_IS_TARGET
from tests.conformance.topology import Topology, wait_for
from tests.contract.conftest import Policies
from tests.contract.letters import Publisher, Table
from tests.contract.streams import STREAM, Reader, make_stream, offsets_of, read

# With messages of this size, five or so are in each segment.
BODY_BYTES = 1000
SEGMENT = {"x-stream-max-segment-size-bytes": 5000}
SEGMENT_COUNT_MAX = 7


def numbered(number: int) -> bytes:
    return b"%d" % number + b"." * BODY_BYTES


def fill(publisher: Publisher, stream: str, first: int, count: int) -> None:
    publisher.publish_all(stream, *(numbered(number) for number in range(first, first + count)))


def first_left(client: RawClient, stream: str, last: int) -> int:
    """The number of the oldest message; all up to the last one must be there."""
    reader = Reader(client, stream)
    bodies = [letter.body for letter in reader.read_to(numbered(last))]
    client.call(1, "basic.cancel", consumer_tag="reader")
    first = last + 1 - len(bodies)
    assert bodies == [numbered(number) for number in range(first, last + 1)]
    return first


def wait_for_few(client: RawClient, stream: str, last: int, count_max: int) -> None:
    """The newest segment always stays, and one that is not full; and the work is done a little later."""
    wait_for(f"at most {count_max} messages", lambda: last + 1 - first_left(client, stream, last) <= count_max)


def test_size(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """A reader whose place is gone begins at the first message that is left."""
    stream = make_stream(client, topology, {**SEGMENT, "x-max-length-bytes": 15_000})
    fill(publisher, stream, 0, 60)
    wait_for_few(client, stream, 59, 20)
    first = first_left(client, stream, 59)
    assert 60 - first > 4
    for place in (0, 5, -1, Typed(b"T", 0), "1h"):
        letters = read(client, stream, 60 - first, place)
        assert letters[0].body == numbered(first)
        assert offsets_of(letters)[0] >= first


def test_age(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Nothing goes while there is but one segment, be it too old and too large."""
    stream = make_stream(client, topology, {**SEGMENT, "x-max-age": "1s"})
    one_segment = make_stream(client, topology, {"x-max-length-bytes": 5000, "x-max-age": "1s"})
    for name in (stream, one_segment):
        fill(publisher, name, 0, 20)
    assert first_left(client, stream, 19) == 0
    time.sleep(1.1)
    for name in (stream, one_segment):
        fill(publisher, name, 20, 8)
    wait_for_few(client, stream, 27, 8 + SEGMENT_COUNT_MAX)
    assert first_left(client, one_segment, 27) == 0


@pytest.mark.skipif(ORACLE_IS_TARGET, reason="now and then RabbitMQ's reader gets nothing more at all")
def test_a_reader_that_was_overtaken(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """It goes on in order, and misses nothing but what is gone."""
    stream = make_stream(client, topology, {**SEGMENT, "x-max-length-bytes": 15_000})
    fill(publisher, stream, 0, 4)
    reader = Reader(client, stream, prefetch=1)
    reader.take(1)
    fill(publisher, stream, 4, 56)
    reader.ack(1)
    bodies = [letter.body for letter in reader.read_to(numbered(59))]
    places = [int(body.partition(b".")[0]) for body in bodies]
    assert places == sorted(set(places))


class TestPolicies:
    """A policy wins against the argument, be it stricter or not."""

    def test_size(self, client: RawClient, publisher: Publisher, policies: Policies, topology: Topology) -> None:
        """It counts at once, for what is there, and no longer when it is cleared."""
        stream = make_stream(client, topology, SEGMENT)
        fill(publisher, stream, 0, 40)
        assert first_left(client, stream, 39) == 0
        policy = policies.set(stream, {"max-length-bytes": 15_000}, apply_to="queues")
        wait_for_few(client, stream, 39, 20)
        policies.clear(policy)
        first = first_left(client, stream, 39)
        fill(publisher, stream, 40, 20)
        assert first_left(client, stream, 59) == first

    @pytest.mark.parametrize(
        ("argument", "policy", "count_min", "count_max"), [(10_000, 100_000, 60, 60), (100_000, 10_000, 1, 16)]
    )
    def test_size_and_argument(
        self,
        client: RawClient,
        publisher: Publisher,
        policies: Policies,
        topology: Topology,
        argument: int,
        policy: int,
        count_min: int,
        count_max: int,
    ) -> None:
        stream = make_stream(client, topology, {**SEGMENT, "x-max-length-bytes": argument})
        policies.set(stream, {"max-length-bytes": policy})
        fill(publisher, stream, 0, 60)
        wait_for_few(client, stream, 59, count_max)
        assert 60 - first_left(client, stream, 59) >= count_min

    def test_the_smaller_of_a_policy_and_an_operators_policy_counts(
        self, client: RawClient, publisher: Publisher, policies: Policies, topology: Topology
    ) -> None:
        stream = make_stream(client, topology, SEGMENT)
        policies.set(stream, {"max-length-bytes": 100_000})
        policies.set(stream, {"max-length-bytes": 10_000}, operator=True)
        fill(publisher, stream, 0, 60)
        wait_for_few(client, stream, 59, 16)

    def test_age_and_size_of_segments(
        self, client: RawClient, publisher: Publisher, policies: Policies, topology: Topology
    ) -> None:
        """Segments are as large as the policy says that is there when the stream is made."""
        stream = make_stream(client, topology)
        client.call(1, "queue.delete", queue=stream)
        policies.set(stream, {"max-age": "1s", "stream-max-segment-size-bytes": 5000})
        arguments = {**STREAM, "x-max-age": "1h", "x-stream-max-segment-size-bytes": 1_000_000}
        client.call(1, "queue.declare", queue=stream, durable=True, arguments=arguments)
        fill(publisher, stream, 0, 20)
        time.sleep(1.1)
        fill(publisher, stream, 20, 8)
        wait_for_few(client, stream, 27, 8 + SEGMENT_COUNT_MAX)

    def test_keys_of_other_queue_types(
        self, client: RawClient, publisher: Publisher, policies: Policies, topology: Topology
    ) -> None:
        stream = make_stream(client, topology)
        definition: Table = {"message-ttl": 1, "max-length": 1, "expires": 200, "dead-letter-exchange": ""}
        policies.set(stream, definition)
        fill(publisher, stream, 0, 4)
        time.sleep(0.4)
        assert first_left(client, stream, 3) == 0
