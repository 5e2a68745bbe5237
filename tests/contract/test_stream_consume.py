"""basic.consume of streams: what a reader must say, where it begins, and readers at different places."""

import time

import pytest

from tests.conformance.amqp_codec import Typed, Value
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, refusal_of
from tests.contract.letters import Publisher, Table
from tests.contract.streams import Reader, make_stream, not_implemented, offsets_of, read, read_bodies

HOUR = 3600


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


@pytest.fixture
def stream(client: RawClient, publisher: Publisher, topology: Topology) -> str:
    """A stream with messages 0, 1, 2 and 3, each named for its offset."""
    made = make_stream(client, topology)
    publisher.publish_all(made, *numbers(0, 1, 2, 3))
    return made


@pytest.fixture
def empty(client: RawClient, topology: Topology) -> str:
    return make_stream(client, topology)


def refused(client: RawClient, stream: str, arguments: Table | None = None, **options: Value) -> Refusal:
    """Consumes with prefetch where that is to be refused; the channel is open again afterwards if there is one."""
    client.call(1, "basic.qos", prefetch_count=10)
    refusal = refusal_of(client, "basic.consume", queue=stream, arguments=arguments or {}, **options)
    if refusal.scope == "channel":
        client.open_channel(1)
    return refusal._replace(text=refusal.text.replace(stream, "NAME"))


def invalid(argument: str, reason: str) -> Refusal:
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue 'NAME' in vhost '/'{reason}"
    return Refusal("channel", 406, text, 60, 20)


class TestWhatAReaderMustSay:
    """Prefetch, and that it acknowledges."""

    @pytest.mark.parametrize("nowait", [False, True])
    @pytest.mark.parametrize("global_count", [0, 10])
    def test_prefetch(self, client: RawClient, empty: str, nowait: bool, global_count: int) -> None:
        """That of the whole channel is no help; and it is asked for before anything is said of acknowledgements."""
        if global_count:
            client.call(1, "basic.qos", {"prefetch_count": global_count, "global": True})
        refusal = refusal_of(client, "basic.consume", queue=empty, nowait=nowait, no_ack=True)
        text = f"PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{empty}' in vhost '/''"
        assert refusal == Refusal("channel", 406, text, 60, 20)

    def test_no_prefetch_of_the_whole_channel_beside_its_own(self, client: RawClient, empty: str) -> None:
        client.call(1, "basic.qos", prefetch_count=10)
        client.call(1, "basic.qos", {"prefetch_count": 10, "global": True})
        refusal = refusal_of(client, "basic.consume", queue=empty)
        assert refusal == not_implemented(f"queue '{empty}' in vhost '/' does not support global qos", 60, 20)

    def test_acknowledgements(self, client: RawClient, empty: str) -> None:
        text = "automatic acknowledgement not supported by stream queues queue 'NAME' in vhost '/'"
        assert refused(client, empty, no_ack=True) == not_implemented(text, 60, 20)

    def test_a_tag_of_its_own(self, client: RawClient, empty: str) -> None:
        Reader(client, empty, tag="mine")
        refusal = refused(client, empty, consumer_tag="mine")
        assert (refusal.code, refusal.text) == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'mine'")


class TestArguments:
    """What stands beside x-stream-offset."""

    @pytest.mark.parametrize("argument", ["x-priority", "x-cancel-on-ha-failover"])
    def test_refused_whatever_they_say(self, client: RawClient, empty: str, argument: str) -> None:
        told = invalid(argument, " of queue type rabbit_stream_queue")
        for value in (1, True, "a"):
            assert refused(client, empty, {argument: value}) == told

    def test_the_order_of_checks(self, client: RawClient, empty: str) -> None:
        """The offset, the rest of the arguments, prefetch, acknowledgements."""
        arguments = {"x-priority": 1, "x-stream-offset": "5"}
        for told in ("x-stream-offset", "x-priority"):
            refusal = refusal_of(client, "basic.consume", queue=empty, arguments=arguments, no_ack=True)
            assert refusal.text.startswith(f"PRECONDITION_FAILED - invalid arg '{told}'")
            client.open_channel(1)
            del arguments[told]

    def test_ignored(self, client: RawClient, stream: str) -> None:
        client.call(1, "basic.qos", prefetch_count=10)
        arguments = {"x-stream-offset": 3, "x-anything": [1], "x-credit": 5}
        client.call(1, "basic.consume", queue=stream, no_local=True, exclusive=True, arguments=arguments)
        assert client.expect(1, "basic.deliver").body == b"3"

    def test_nobody_is_alone(self, connect: Connect, stream: str) -> None:
        """Readers do not take from each other, and so exclusive means nothing."""
        readers = [Reader(connect(), stream, exclusive=exclusive) for exclusive in (False, True, True, False)]
        for reader in readers:
            assert reader.bodies(4) == numbers(0, 1, 2, 3)


@pytest.mark.parametrize("offset", ["0s", "1d", "1H", "5", "1.5h", "1h30m", "1h "])
def test_bad_offsets(client: RawClient, empty: str, offset: str) -> None:
    told = invalid("x-stream-offset", f': {{invalid_stream_offset_arg,{{longstr,<<"{offset}">>}}}}')
    assert refused(client, empty, {"x-stream-offset": offset}) == told


INTEGERS = (b"b", b"B", b"s", b"u", b"I", b"i", b"l", b"L")
# Places in a stream of four messages, and the offset of the first one that is read.
PLACES: list[tuple[Value, int]] = [
    ("first", 0),
    ("last", 3),
    (b"first", 0),
    (0, 0),
    *((Typed(tag, 2), 2) for tag in INTEGERS),
    (3, 3),
    (-1, 0),
    (-(2**40), 0),
    *((f"5{unit}", 0) for unit in "YMDhm"),
    ("300s", 0),
    ("10000Y", 0),
    (Typed(b"T", 0), 0),
]


class TestPlaces:
    """Where a reader begins."""

    def test_in_what_is_there(self, client: RawClient, stream: str) -> None:
        for place, first in PLACES:
            letters = read(client, stream, 4 - first, place)
            assert offsets_of(letters) == list(range(first, 4)), place

    def test_by_time(self, client: RawClient, publisher: Publisher, stream: str) -> None:
        """In seconds: the first message that came then or later."""
        time.sleep(1.2)
        moment = int(time.time())
        publisher.publish_all(stream, b"4")
        assert read_bodies(client, stream, 1, "1s") == [b"4"]
        assert read_bodies(client, stream, 1, Typed(b"T", moment)) == [b"4"]
        assert read_bodies(client, stream, 5, Typed(b"T", moment - HOUR)) == numbers(0, 1, 2, 3, 4)

    def test_at_the_end(self, connect: Connect, publisher: Publisher, stream: str) -> None:
        """Which is where a reader begins that says nothing."""
        future = Typed(b"T", int(time.time()) + HOUR)
        readers = [Reader(connect(), stream, place) for place in (None, "next", 4, future)]
        readers[0].expect_quiet()
        publisher.publish_all(stream, b"4", b"5")
        for reader in readers:
            assert reader.bodies(2) == numbers(4, 5)

    def test_behind_the_end(self, client: RawClient, publisher: Publisher, stream: str) -> None:
        """Those before are not for this reader."""
        reader = Reader(client, stream, 6)
        publisher.publish_all(stream, *numbers(4, 5, 6, 7))
        assert reader.bodies(2) == numbers(6, 7)

    def test_of_the_last_and_what_follows(self, client: RawClient, publisher: Publisher, stream: str) -> None:
        reader = Reader(client, stream, "last")
        publisher.publish_all(stream, b"4")
        assert reader.bodies(2) == numbers(3, 4)

    def test_in_an_empty_stream(self, connect: Connect, publisher: Publisher, empty: str) -> None:
        future = Typed(b"T", int(time.time()) + HOUR)
        places = (None, "first", "last", "next", 0, -1, "1h", Typed(b"T", 0), future)
        readers = [Reader(connect(), empty, place) for place in places]
        late = Reader(connect(), empty, 2)
        publisher.publish_all(empty, *numbers(0, 1, 2))
        for reader in readers:
            assert reader.bodies(3) == numbers(0, 1, 2)
        assert late.bodies(1) == numbers(2)


class TestManyReaders:
    """Nobody takes anything from anybody."""

    def test_each_at_its_place(self, connect: Connect, publisher: Publisher, stream: str) -> None:
        readers = [Reader(connect(), stream, place) for place in (0, 2, 3, "next")]
        publisher.publish_all(stream, b"4")
        for reader, first in zip(readers, (0, 2, 3, 4), strict=True):
            assert offsets_of(reader.take(5 - first)) == list(range(first, 5))

    def test_on_one_channel(self, client: RawClient, stream: str) -> None:
        client.call(1, "basic.qos", prefetch_count=10)
        for tag, place in (("a", "first"), ("b", 2)):
            client.send(1, "basic.consume", queue=stream, consumer_tag=tag, arguments={"x-stream-offset": place})
        methods = [client.expect(1, "basic.consume-ok", "basic.deliver") for _ in range(8)]
        letters = [method for method in methods if method.name == "basic.deliver"]
        assert [letter["delivery_tag"] for letter in letters] == [1, 2, 3, 4, 5, 6]
        for tag, first in (("a", 0), ("b", 2)):
            mine = [letter for letter in letters if letter["consumer_tag"] == tag]
            assert offsets_of(mine) == list(range(first, 4))

    def test_on_two_channels(self, client: RawClient, publisher: Publisher, stream: str) -> None:
        client.open_channel(2)
        assert Reader(client, stream, 2, channel=2).bodies(2) == numbers(2, 3)
        assert Reader(client, stream, "first").bodies(4) == numbers(0, 1, 2, 3)

    def test_one_that_does_not_acknowledge_holds_nobody_up(self, connect: Connect, stream: str) -> None:
        slow = Reader(connect(), stream, prefetch=1)
        assert slow.bodies(1) == [b"0"]
        quick = Reader(connect(), stream, prefetch=1)
        assert [letter.body for letter in quick.read_to(b"3")] == numbers(0, 1, 2, 3)
        slow.expect_quiet()

    def test_again_and_again(self, client: RawClient, stream: str) -> None:
        """What was read and acknowledged is there for the next, and is no redelivery."""
        for _ in range(3):
            letters = read(client, stream, 4)
            assert offsets_of(letters) == [0, 1, 2, 3]
            assert not any(letter["redelivered"] for letter in letters)
