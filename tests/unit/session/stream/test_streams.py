"""Commands about streams: making and deleting them, where they are, and super streams."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import Code
from tests.conformance.raw_stream_client import RawStreamClient
from tests.unit.session.stream.scene import connected, put_user


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawStreamClient]:
    with connected(broker) as client:
        yield client


def test_a_stream_is_made_and_deleted_once(client: RawStreamClient) -> None:
    assert client.code(commands.Delete, "once") == Code.STREAM_DOES_NOT_EXIST
    client.do(commands.Create, "once", {})
    assert client.code(commands.Create, "once", {}) == Code.STREAM_ALREADY_EXISTS
    client.do(commands.Delete, "once")
    assert client.code(commands.Delete, "once") == Code.STREAM_DOES_NOT_EXIST


def test_arguments_are_those_of_amqp(broker: Broker, client: RawStreamClient) -> None:
    given = {"max-length-bytes": "20000000", "max-age": "1h", "stream-max-segment-size-bytes": "1000000"}
    client.do(commands.Create, "arguments", given)
    arguments = broker.call(lambda node: node.broker.vhosts["/"].queues[b"arguments"].record.arguments)
    assert arguments == {
        "x-queue-type": "stream",
        "x-max-length-bytes": 20000000,
        "x-max-age": "1h",
        "x-stream-max-segment-size-bytes": 1000000,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {"unknown": "1"},
        {"x-max-age": "1h"},
        {"max-age": "soon"},
        {"max-length-bytes": "many"},
        {"max-length-bytes": "-1"},
        {"max-length-bytes": "9" * 30},
        {"max-length-bytes": "\u0663"},
        {"stream-max-segment-size-bytes": "99999999999"},
    ],
)
def test_bad_arguments_are_refused(client: RawStreamClient, arguments: dict[str, str]) -> None:
    assert client.code(commands.Create, "bad", arguments) == Code.PRECONDITION_FAILED
    assert client.code(commands.Delete, "bad") == Code.STREAM_DOES_NOT_EXIST


@pytest.mark.parametrize("name", ["", "\r\n", "amq.stream", "x" * 256])
def test_bad_names_are_refused(client: RawStreamClient, name: str) -> None:
    assert client.code(commands.Create, name, {}) == Code.PRECONDITION_FAILED


def test_other_queues_are_no_streams(broker: Broker, client: RawStreamClient) -> None:
    broker.call(lambda node: node.broker.declare_durable_queue("/", "classic"))
    assert client.code(commands.Create, "classic", {}) == Code.PRECONDITION_FAILED
    assert client.code(commands.Delete, "classic") == Code.STREAM_DOES_NOT_EXIST
    assert client.code(commands.StreamStats, "classic") == Code.STREAM_DOES_NOT_EXIST
    assert broker.call(lambda node: b"classic" in node.broker.vhosts["/"].queues)


def test_a_stream_that_exists_is_created_again_only_as_it_is(client: RawStreamClient) -> None:
    """Clients take the code for a stream that exists as a success."""
    client.do(commands.Create, "aged", {"max-age": "1h"})
    assert client.code(commands.Create, "aged", {"max-age": "1h"}) == Code.STREAM_ALREADY_EXISTS
    assert client.code(commands.Create, "aged", {"max-age": "2h"}) == Code.PRECONDITION_FAILED
    assert client.code(commands.Create, "aged", {}) == Code.PRECONDITION_FAILED


def test_who_may_not_configure_may_not_make_nor_delete(broker: Broker, client: RawStreamClient) -> None:
    client.do(commands.Create, "guarded", {})
    put_user(broker, "bob", configure="^bob")
    with connected(broker, user="bob", password="secret") as other:
        assert other.code(commands.Create, "other", {}) == Code.ACCESS_REFUSED
        assert other.code(commands.Delete, "guarded") == Code.ACCESS_REFUSED
        partitions = (["guarded-0"], ["0"], {})
        assert other.code(commands.CreateSuperStream, "guarded", *partitions) == Code.ACCESS_REFUSED
        other.do(commands.Create, "bob-1", {})


def test_metadata_say_where_a_stream_is(broker: Broker, client: RawStreamClient) -> None:
    client.do(commands.Create, "somewhere", {})
    found = client.request(commands.Metadata, ["somewhere", "nowhere"])
    assert found.brokers == [(0, "127.0.0.1", broker.stream_port)]
    assert found.streams == [("somewhere", 1, 0, []), ("nowhere", Code.STREAM_DOES_NOT_EXIST, 65535, [])]


def test_statistics(client: RawStreamClient) -> None:
    client.do(commands.Create, "counted", {})
    keys = ("first_chunk_id", "last_chunk_id", "committed_chunk_id", "committed_offset")
    assert client.do(commands.StreamStats, "counted").statistics == dict.fromkeys(keys, -1)
    client.do(commands.DeclarePublisher, 1, "", "counted")
    client.publish(1, (1, b"a"), (2, b"b"))
    client.receive(commands.PublishConfirm)
    assert client.do(commands.StreamStats, "counted").statistics == dict(zip(keys, (0, 1, 1, 1), strict=True))


def test_super_streams(client: RawStreamClient) -> None:
    names, keys = ["all-eu", "all-us"], ["eu", "us"]
    client.do(commands.CreateSuperStream, "all", names, keys, {"max-age": "1h"})
    assert client.code(commands.CreateSuperStream, "all", names, keys, {}) == Code.STREAM_ALREADY_EXISTS
    assert client.code(commands.CreateSuperStream, "more", names, keys, {}) == Code.STREAM_ALREADY_EXISTS
    assert client.do(commands.Partitions, "all").streams == names
    assert client.do(commands.Route, "us", "all").streams == ["all-us"]
    assert client.do(commands.Route, "asia", "all").streams == []
    client.do(commands.DeclarePublisher, 1, "", "all-eu")
    client.do(commands.DeleteSuperStream, "all")
    assert client.receive(commands.MetadataUpdate).stream == "all-eu"
    for kind, fields in (
        (commands.DeleteSuperStream, ("all",)),
        (commands.Partitions, ("all",)),
        (commands.Route, ("us", "all")),
        (commands.Delete, ("all-eu",)),
    ):
        assert client.code(kind, *fields) == Code.STREAM_DOES_NOT_EXIST


@pytest.mark.parametrize(
    ("names", "keys", "arguments"),
    [
        ([], [], {}),
        (["a", "b"], ["0"], {}),
        (["a", "a"], ["0", "1"], {}),
        ([""], ["0"], {}),
        (["a"], ["0"], {"x": "y"}),
    ],
)
def test_bad_super_streams_are_refused(
    client: RawStreamClient, names: list[str], keys: list[str], arguments: dict[str, str]
) -> None:
    assert client.code(commands.CreateSuperStream, "bad", names, keys, arguments) == Code.PRECONDITION_FAILED
